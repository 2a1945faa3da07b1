//! A chat template's text before the interpreter reads it.
//!
//! The interpreter has no limit where it reads a template: at each operator of a chain it looks for a constant in all of
//! the operators before. So the operators of a tag are counted first ([`check_operators`]).

use minijinja::machinery::{Span, Token, WhitespaceConfig, tokenize};
use minijinja::syntax::SyntaxConfig;

/// The most operators between the delimiters of a tag. Templates of published models have a few dozen. With this many
/// in each tag, a template of 64 KiB takes some millions of steps to read.
pub(super) const MOST_OPERATORS: usize = 500;

/// A variable that is 1.
pub(super) const ONE: &str = "embedctl_one";

fn tokens(source: &str) -> impl Iterator<Item = (Token<'_>, Span)> {
    let spaces = WhitespaceConfig::default();
    tokenize(source, false, SyntaxConfig, spaces).map_while(Result::ok)
}

/// `source` as the interpreter may read it: no product of constants, which it would make while it reads (`'x' *
/// 100000000`), and blocks of scope in the place of transformers' `{% generation %}`, which marks what a model has written.
pub(super) fn readable(source: &str) -> String {
    let (mut changed, mut from) = (String::with_capacity(source.len()), 0);
    let mut opens_block = false;
    for (token, span) in tokens(source) {
        let new = match token {
            Token::Mul => Some(format!("* {ONE} *")),
            Token::Ident("generation") if opens_block => Some("with".into()),
            Token::Ident("endgeneration") if opens_block => Some("endwith".into()),
            _ => None,
        };
        if let Some(new) = new {
            changed += &source[from..span.start_offset as usize];
            changed += &new;
            from = span.end_offset as usize;
        }
        opens_block = matches!(token, Token::BlockStart);
    }
    changed + &source[from..]
}

/// Refuses a template with more than [`MOST_OPERATORS`] operators in a tag, without parsing it.
///
/// # Errors
/// The line of that tag, and the limit.
pub(super) fn check_operators(source: &str) -> Result<(), String> {
    let (mut line, mut count) = (1, 0);
    for (token, span) in tokens(source) {
        match token {
            Token::VariableStart | Token::BlockStart => (line, count) = (span.start_line, 0),
            token if is_operator(&token) => count += 1,
            _ => {}
        }
        if count > MOST_OPERATORS {
            return Err(format!(
                "the expression on line {line} has more than {MOST_OPERATORS} operators, the limit"
            ));
        }
    }
    Ok(())
}

/// Whether a token is an operator behind which the interpreter looks for constants.
fn is_operator(token: &Token<'_>) -> bool {
    match token {
        Token::Ident(word) => matches!(*word, "and" | "or" | "not" | "in"),
        Token::Plus
        | Token::Minus
        | Token::Mul
        | Token::Div
        | Token::FloorDiv
        | Token::Pow
        | Token::Mod
        | Token::Tilde
        | Token::Eq
        | Token::Ne
        | Token::Gt
        | Token::Gte
        | Token::Lt
        | Token::Lte => true,
        _ => false,
    }
}
