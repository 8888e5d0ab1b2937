//! Archives of objects, as `ar` writes them.

use outboard_elf::archive::Archive;

/// Longest name that fits into a header.
const SHORT: usize = 15;

/// Writes an archive of the members, in their order, without dates and owners.
pub fn write_archive(members: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut names = String::new();
    let mut headers = Vec::new();
    for (name, _) in members {
        if name.len() > SHORT {
            headers.push(format!("/{}", names.len()));
            names.push_str(name);
            names.push_str("/\n");
        } else {
            headers.push(format!("{name}/"));
        }
    }
    let mut file = b"!<arch>\n".to_vec();
    let mut put = |header: &str, bytes: &[u8]| {
        let size = bytes.len();
        file.extend_from_slice(format!("{header:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 0, 644).as_bytes());
        file.extend_from_slice(bytes);
        if size % 2 == 1 {
            file.push(b'\n');
        }
    };
    if !names.is_empty() {
        put("//", names.as_bytes());
    }
    for (header, (_, bytes)) in headers.iter().zip(members) {
        put(header, bytes);
    }
    file
}

/// The objects of an archive; metadata of the Rust compiler is left out.
pub(crate) fn members(file: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
    let archive = Archive::open(file).ok_or("not an archive")?;
    let mut members = Vec::new();
    for member in archive {
        let member = member.map_err(|error| error.to_string())?;
        let name = String::from_utf8_lossy(member.name).into_owned();
        if member.data.starts_with(b"\x7fELF") {
            members.push((name, member.data.to_vec()));
        }
    }
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_read_back_with_short_and_long_names() {
        let object = |size: usize| [b"\x7fELF".as_slice(), &vec![7; size]].concat();
        let given = [
            ("a.o".to_owned(), object(3)),
            ("a_name_that_does_not_fit.o".to_owned(), object(4)),
            ("fifteen_chars.o".to_owned(), object(0)),
        ];
        assert_eq!(members(&write_archive(&given)).unwrap(), given);
    }
}
