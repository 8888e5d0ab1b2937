//! The macro that makes a library of operations: wrappers and launchers under their linker names, and the three functions by
//! which the device learns what there is.

use std::fmt::Write as _;

use proc_macro::{Span, TokenStream, TokenTree};

use crate::problem::Problem;
use crate::tokens::{is, list};

/// Operations of a library.
const MAX_OPERATIONS: usize = 10;

/// An operation: its name, and the path of its module.
struct Listed {
    name: String,
    path: String,
}

/// The code of a library.
pub(crate) fn expand(input: TokenStream) -> Result<TokenStream, Problem> {
    let tokens: Vec<TokenTree> = input.into_iter().collect();
    let (stack, rest) = match &tokens[..] {
        [key, equals, TokenTree::Literal(value), semicolon, rest @ ..]
            if is(key, "stack") && is(equals, "=") && is(semicolon, ";") =>
        {
            (value.to_string(), rest)
        }
        rest => ("::customop::kernel::STACK_SIZE".to_owned(), rest),
    };
    let operations = list(rest).into_iter().map(listed).collect::<Result<Vec<_>, _>>()?;
    if operations.is_empty() || operations.len() > MAX_OPERATIONS {
        let problem = format!("{} operations; a library has 1 to {MAX_OPERATIONS}", operations.len());
        return Err(Problem::over(problem, rest, Span::call_site()));
    }
    for (index, operation) in operations.iter().enumerate() {
        if operations.iter().take(index).any(|other| other.name == operation.name) {
            let problem = format!("two operations are called `{}`; the device finds them by name", operation.name);
            return Err(Problem::over(problem, rest, Span::call_site()));
        }
    }
    text(&operations, &stack)
        .parse()
        .map_err(|_| Problem::over("write it as library!(stack = 8192; relu, add)", &tokens, Span::call_site()))
}

/// `relu` or `kernels::relu`.
fn listed(part: &[TokenTree]) -> Result<Listed, Problem> {
    let plain = part.iter().all(|token| matches!(token, TokenTree::Ident(_)) || is(token, ":"));
    match part.last() {
        Some(TokenTree::Ident(name)) if plain => {
            let path = part.iter().map(ToString::to_string).collect();
            Ok(Listed { name: name.to_string(), path })
        }
        _ => Err(Problem::over("expected the path of an operation, such as kernels::relu", part, Span::call_site())),
    }
}

fn text(operations: &[Listed], stack: &str) -> String {
    let mut text = String::from(
        "#[cfg(target_arch = \"xtensa\")]
        #[panic_handler]
        fn panic(info: &::core::panic::PanicInfo<'_>) -> ! { ::customop::kernel::panicked(info) }",
    );
    let (mut names, mut launchers) = (String::new(), String::new());
    for (index, Listed { name, path }) in operations.iter().enumerate() {
        let _ = write!(
            text,
            "#[cfg(target_arch = \"xtensa\")]
            #[unsafe(no_mangle)]
            extern \"C\" fn {name}_wrapper() -> i32 {{ {path}::run(); 0 }}
            #[cfg(target_arch = \"xtensa\")]
            #[unsafe(no_mangle)]
            extern \"C\" fn {name}_stack_switch() -> i32 {{ ::customop::kernel::launch({name}_wrapper, {stack}) }}"
        );
        let _ = write!(names, "{index} => c{name:?},");
        let _ = write!(launchers, "{index} => ::customop::kernel::address_of({name}_stack_switch),");
    }
    let _ = write!(
        text,
        "#[cfg(target_arch = \"xtensa\")]
        #[unsafe(export_name = \"_Z12get_func_cntv\")]
        extern \"C\" fn get_func_cnt() -> i32 {{ {} }}
        #[cfg(target_arch = \"xtensa\")]
        #[unsafe(export_name = \"_Z13get_func_namei\")]
        extern \"C\" fn get_func_name(index: i32) -> *const u8 {{
            let name = match index {{ {names} _ => c\"error\" }};
            name.as_ptr().cast()
        }}
        #[cfg(target_arch = \"xtensa\")]
        #[unsafe(export_name = \"_Z12get_func_ptri\")]
        extern \"C\" fn get_func_ptr(index: i32) -> u32 {{ match index {{ {launchers} _ => 0 }} }}",
        operations.len()
    );
    text
}
