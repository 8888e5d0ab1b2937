//! Pieces of the input window whose addresses a client has, and who owns each.
//!
//! The published library knows no owners: it synchronises the whole window in every call, so that a piece may be written at
//! any time between calls. A client that hands a piece over says more, and is held to it from then on.

use super::ClientError;
use crate::{Device, Host, InputBuffer, Session};
use std::ops::Range;

/// Whose a piece is.
#[derive(Debug)]
enum Piece {
    /// Nobody has said: calls take it, and the host may write to it between them.
    Unsaid(InputBuffer<Host>),
    /// The host's: no call takes it.
    Host(InputBuffer<Host>),
    /// The device's: the host must not look at it.
    Device(InputBuffer<Device>),
}

/// The pieces of a client, with the range of each in the window.
#[derive(Debug, Default)]
pub(super) struct Pieces(Vec<(Range<usize>, Piece)>);

impl Pieces {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn add(&mut self, place: Range<usize>, buffer: InputBuffer<Host>) {
        self.0.push((place, Piece::Unsaid(buffer)));
    }

    /// Whether a call may take the data at `offset` as its input `index`.
    pub(super) fn check(&self, index: usize, offset: usize) -> Result<(), ClientError> {
        match self.0.iter().find(|(place, _)| place.contains(&offset)) {
            Some((_, Piece::Host(_))) => Err(ClientError::WrongOwner {
                what: format!("input {index} of the call"),
                owner: "host",
                todo: "hand it over before the call (c7x_client_hand_over)",
            }),
            _ => Ok(()),
        }
    }

    /// Gives a piece to the device.
    pub(super) fn hand_over(&mut self, session: &mut Session, offset: usize) -> Result<(), ClientError> {
        let (place, piece) = self.take(offset)?;
        match piece {
            Piece::Unsaid(buffer) | Piece::Host(buffer) => {
                let given = session.hand_over(buffer)?;
                self.0.push((place, Piece::Device(given)));
                Ok(())
            }
            device @ Piece::Device(_) => {
                self.refuse(place, device, "device", "take it back before it is written again")
            }
        }
    }

    /// Gives a piece to the host.
    pub(super) fn take_back(&mut self, session: &mut Session, offset: usize) -> Result<(), ClientError> {
        let (place, piece) = self.take(offset)?;
        match piece {
            Piece::Device(buffer) => {
                let taken = session.take_back(buffer)?;
                self.0.push((place, Piece::Host(taken)));
                Ok(())
            }
            host => self.refuse(place, host, "host", "it can be written as it is"),
        }
    }

    /// Takes the piece out that begins at `offset`.
    fn take(&mut self, offset: usize) -> Result<(Range<usize>, Piece), ClientError> {
        let index = self.0.iter().position(|(place, _)| place.start == offset);
        let unknown = || ClientError::Arguments("the address is not one that c7x_client_create_input gave".to_owned());
        Ok(self.0.swap_remove(index.ok_or_else(unknown)?))
    }

    /// Puts a piece back and says whose it is.
    fn refuse(
        &mut self,
        place: Range<usize>,
        piece: Piece,
        owner: &'static str,
        todo: &'static str,
    ) -> Result<(), ClientError> {
        self.0.push((place, piece));
        Err(ClientError::WrongOwner { what: "the buffer".to_owned(), owner, todo })
    }
}
