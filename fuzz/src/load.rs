//! Target `load`: loads, prelinks and checks; what is refused must leave no trace, what is loaded must be released whole.

use outboard_link::check::{CheckRequest, Profile, check};
use outboard_link::export_sets::ExportSets;
use outboard_link::prelink::{PrelinkRequest, prelink_c7x};
use outboard_link::target::Target as Board;
use outboard_link::{ExportTable, Initialisers, LoadOptions, LoadRequest, Machine, PoolMemory, load_with};

use crate::signature::Signature;

const POOL: u64 = 0x1_0200_0000;
const POOL_SIZE: u64 = 1 << 20;
const STAGING: u64 = 0xc000_0000;

thread_local! {
    static SETS: ExportSets = ExportSets::builtin();
    static BOARD: Board = Board::am67a();
    static EXPORTS: ExportTable = ExportSets::builtin().get("sim").map(|set| set.table()).unwrap_or_default();
}

/// Runs the target.
#[must_use]
pub fn run(data: &[u8]) -> u64 {
    let mut signature = Signature::default();
    EXPORTS.with(|exports| {
        for (staging, initialisers, strict) in
            [(None, Initialisers::Collect, true), (Some(STAGING), Initialisers::Refuse, false)]
        {
            load_once(data, exports, staging, initialisers, strict, &mut signature);
        }
        BOARD.with(|board| {
            match prelink_c7x(&PrelinkRequest::new(data, "fuzz", exports, board)) {
                Ok(prelinked) => {
                    signature.count(prelinked.report.segments.len());
                    let mut written = 0;
                    prelinked.write_image(&mut |piece| written += piece.len());
                    signature.count(written);
                }
                Err(error) => signature.load_error(&error),
            }
            SETS.with(|sets| {
                for profile in [Profile::C7x, Profile::Remoteproc] {
                    let request = CheckRequest { file: data, name: "fuzz", profile, target: board, exports, sets };
                    for finding in check(&request).findings {
                        signature.word(finding.code);
                    }
                }
            });
        });
    });
    signature.value()
}

fn load_once(
    data: &[u8],
    exports: &ExportTable,
    staging: Option<u64>,
    initialisers: Initialisers,
    strict: bool,
    signature: &mut Signature,
) {
    let mut memory = PoolMemory::new("MAIN", POOL, POOL_SIZE);
    let request = LoadRequest {
        file: data,
        name: "fuzz",
        staging,
        exports,
        cpu_features: Some(&|feature| feature != "avx512f"),
        machines: &[Machine::C7x, Machine::X86_64, Machine::AArch64],
        initialisers,
    };
    match load_with(&request, &LoadOptions { strict, ..LoadOptions::default() }, &mut memory) {
        Ok(module) => {
            signature.count(module.segments().len());
            signature.count(module.relocations().len());
            signature.count(module.symbols().count());
            signature.count(module.initialisers().len() + module.finalisers().len());
            let (symbols, imports) = (module.symbols().count(), module.imports().count());
            for segment in module.segments() {
                let _ = module.nearest_symbol(segment.base);
            }
            let kept = module.into_owned();
            assert_eq!((kept.symbols().count(), kept.imports().count()), (symbols, imports), "no name is lost");
            kept.release(&mut memory);
        }
        Err(error) => signature.load_error(&error),
    }
    assert_eq!(memory.free(), POOL_SIZE, "everything was given back");
}
