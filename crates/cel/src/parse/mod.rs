//! Tokens to a tree: precedence climbing, so that depth is that of the brackets.

mod ast;
mod print;

use std::sync::Arc;

pub use ast::Expr;
pub(crate) use ast::{Binary, Element, Entry, Kind, Logic, Unary};
pub use print::print;

use crate::deep::deeper;
use crate::error::{CelError, CelErrorKind};
use crate::lex::{Token, lex};

/// Words kept for languages CEL is embedded in.
const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Words that are literals or operators.
const KEYWORDS: &[&str] = &["false", "in", "null", "true"];

/// Tells that a word cannot be the name of a variable.
pub fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word) || KEYWORDS.contains(&word)
}

/// Reads an expression no deeper than `deepest` levels.
pub fn parse(text: &str, deepest: u32) -> Result<Expr, CelError> {
    let located = |mut error: CelError| {
        error.locate(text);
        error
    };
    let tokens = lex(text).map_err(located)?;
    let mut parser = Parser { tokens, at: 0, depth: 0, deepest };
    parser.parse_whole().map_err(located)
}

struct Parser {
    tokens: Vec<(Token, u32)>,
    at: usize,
    depth: u32,
    deepest: u32,
}

type Parsed = Result<Expr, CelError>;

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |(token, _)| token)
    }

    fn offset(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(0, |(_, offset)| *offset)
    }

    fn next(&mut self) -> Token {
        match self.tokens.get_mut(self.at) {
            Some((token, _)) if *token != Token::End => {
                self.at += 1;
                std::mem::replace(token, Token::Null)
            }
            _ => Token::End,
        }
    }

    fn is(&self, text: &str) -> bool {
        matches!(self.peek(), Token::Punct(found) if *found == text)
    }

    fn take_text(&mut self, text: &str) -> bool {
        let found = self.is(text);
        self.at += usize::from(found);
        found
    }

    fn syntax_error(&self, message: String) -> CelError {
        CelError::new(CelErrorKind::Syntax, self.offset() as usize, format!("Syntax error: {message}"))
    }

    fn expect(&mut self, text: &str) -> Result<(), CelError> {
        if self.take_text(text) {
            return Ok(());
        }
        Err(self.syntax_error(format!("expected '{text}', found {}", self.peek().show())))
    }

    fn too_deep(&self, offset: u32) -> CelError {
        let message = format!("expression recursion limit exceeded: {}", self.deepest);
        CelError::new(CelErrorKind::Limit, offset as usize, message)
    }

    fn make_expr(&self, offset: u32, kind: Kind) -> Parsed {
        let made = Expr::new(offset, kind);
        if made.height > self.deepest { Err(self.too_deep(offset)) } else { Ok(made) }
    }

    fn parse_whole(&mut self) -> Parsed {
        let found = self.parse_expr()?;
        if *self.peek() == Token::End {
            return Ok(found);
        }
        let hint = match self.peek() {
            Token::Ident(name) => match &**name {
                "and" => Some("and is written `&&`".to_owned()),
                "or" => Some("or is written `||`".to_owned()),
                _ => None,
            },
            _ => None,
        };
        Err(self.syntax_error(format!("unexpected {} after the expression", self.peek().show())).hint(hint))
    }

    fn parse_expr(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > self.deepest {
            return Err(self.too_deep(self.offset()));
        }
        let found = deeper(|| self.parse_ternary())?;
        self.depth -= 1;
        Ok(found)
    }

    fn parse_ternary(&mut self) -> Parsed {
        let condition = self.parse_logic(Logic::Or)?;
        let offset = self.offset();
        if self.take_text("?") {
            let yes = self.parse_logic(Logic::Or)?;
            self.expect(":")?;
            let no = self.parse_expr()?;
            return self.make_expr(offset, Kind::Ternary(Box::new(condition), Box::new(yes), Box::new(no)));
        }
        Ok(condition)
    }

    fn parse_logic(&mut self, kind: Logic) -> Parsed {
        let operand = |parser: &mut Self| match kind {
            Logic::Or => parser.parse_logic(Logic::And),
            Logic::And => parser.parse_binary(1),
        };
        let operator = if kind == Logic::Or { "||" } else { "&&" };
        let first = operand(self)?;
        let offset = self.offset();
        if !self.is(operator) {
            return Ok(first);
        }
        let mut terms = vec![first];
        while self.take_text(operator) {
            terms.push(operand(self)?);
        }
        self.make_expr(offset, Kind::Logic(kind, terms))
    }

    fn peek_operator(&self) -> Option<Binary> {
        Some(match self.peek() {
            Token::In => Binary::In,
            Token::Punct("==") => Binary::Equal,
            Token::Punct("!=") => Binary::NotEqual,
            Token::Punct("<") => Binary::Less,
            Token::Punct("<=") => Binary::LessEqual,
            Token::Punct(">") => Binary::Greater,
            Token::Punct(">=") => Binary::GreaterEqual,
            Token::Punct("+") => Binary::Add,
            Token::Punct("-") => Binary::Subtract,
            Token::Punct("*") => Binary::Multiply,
            Token::Punct("/") => Binary::Divide,
            Token::Punct("%") => Binary::Modulo,
            _ => return None,
        })
    }

    fn parse_binary(&mut self, level: u8) -> Parsed {
        let mut left = self.parse_unary()?;
        while let Some(operator) = self.peek_operator().filter(|found| found.level() >= level) {
            let offset = self.offset();
            self.at += 1;
            let right = self.parse_binary(operator.level() + 1)?;
            left = self.make_expr(offset, Kind::Binary(operator, Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn parse_unary(&mut self) -> Parsed {
        let mut signs = Vec::new();
        loop {
            let offset = self.offset();
            let sign = match self.peek() {
                Token::Punct("!") => Unary::Not,
                Token::Punct("-") => Unary::Negate,
                _ => break,
            };
            // A minus before a number belongs to the number.
            if sign == Unary::Negate
                && matches!(self.tokens.get(self.at + 1), Some((Token::Int(_) | Token::Double(_), _)))
            {
                break;
            }
            if let Some((first, _)) = signs.first()
                && *first != sign
            {
                return Err(self.syntax_error(format!("unexpected {}", self.peek().show())));
            }
            self.at += 1;
            signs.push((sign, offset));
            if signs.len() as u32 > self.deepest {
                return Err(self.too_deep(offset));
            }
        }
        let mut found = self.parse_member()?;
        // Two of a kind undo each other.
        if let (0, Some((Unary::Not, _))) = (signs.len() % 2, signs.first()) {
            signs.clear();
        }
        if signs.len() % 2 == 1 && signs.len() > 1 {
            signs.truncate(1);
        }
        for (sign, offset) in signs.into_iter().rev() {
            found = self.make_expr(offset, Kind::Unary(sign, Box::new(found)))?;
        }
        Ok(found)
    }

    fn parse_member(&mut self) -> Parsed {
        let mut found = self.parse_primary()?;
        loop {
            let offset = self.offset();
            if self.take_text(".") {
                let optional = self.take_text("?");
                let field = self.parse_field()?;
                let call = self.offset();
                if !optional && self.take_text("(") {
                    let args = self.parse_arguments()?;
                    let kind = Kind::Call { target: Some(Box::new(found)), name: field, args };
                    found = self.make_expr(call, kind)?;
                } else {
                    found =
                        self.make_expr(offset, Kind::Select { operand: Box::new(found), field, optional })?;
                }
            } else if self.take_text("[") {
                let optional = self.take_text("?");
                let index = self.parse_expr()?;
                self.expect("]")?;
                let kind = Kind::Index { operand: Box::new(found), index: Box::new(index), optional };
                found = self.make_expr(offset, kind)?;
            } else {
                return Ok(found);
            }
        }
    }

    fn parse_field(&mut self) -> Result<Arc<str>, CelError> {
        if let Token::Ident(name) | Token::Quoted(name) = self.peek() {
            let name = name.clone();
            self.at += 1;
            return Ok(name);
        }
        // A keyword that opens a call after a dot can be nothing else than the method's name.
        if matches!(self.peek(), Token::In)
            && matches!(self.tokens.get(self.at + 1), Some((Token::Punct("("), _)))
        {
            self.at += 1;
            return Ok("in".into());
        }
        Err(self.syntax_error(format!("expected a name after '.', found {}", self.peek().show())))
    }

    fn parse_arguments(&mut self) -> Result<Vec<Expr>, CelError> {
        let mut args = Vec::new();
        if self.take_text(")") {
            return Ok(args);
        }
        loop {
            args.push(self.parse_expr()?);
            if !self.take_text(",") {
                self.expect(")")?;
                return Ok(args);
            }
        }
    }

    fn parse_primary(&mut self) -> Parsed {
        let offset = self.offset();
        if !matches!(
            self.peek(),
            Token::Punct("(" | "[" | "{" | "-" | ".")
                | Token::Ident(_)
                | Token::Int(_)
                | Token::Uint(_)
                | Token::Double(_)
                | Token::String(_)
                | Token::Bytes(_)
                | Token::True
                | Token::False
                | Token::Null
        ) {
            return Err(self.syntax_error(match self.peek() {
                Token::End => "the expression ends where a value is expected".to_owned(),
                token => format!("unexpected {} where a value is expected", token.show()),
            }));
        }
        let kind = match self.next() {
            Token::True => Kind::Bool(true),
            Token::False => Kind::Bool(false),
            Token::Int(number) => Kind::Int(self.int_value(number, false, offset)?),
            Token::Uint(number) => Kind::Uint(number),
            Token::Double(number) => Kind::Double(number),
            Token::String(text) => Kind::String(text),
            Token::Bytes(bytes) => Kind::Bytes(bytes),
            Token::Ident(name) => return self.parse_name(name, offset),
            Token::Punct("-") => match self.next() {
                Token::Int(number) => Kind::Int(self.int_value(number, true, offset)?),
                Token::Double(number) => Kind::Double(-number),
                _ => return Err(self.syntax_error("expected a number after '-'".to_owned())),
            },
            Token::Punct(".") => {
                let name = self.parse_field()?;
                return self.parse_name(format!(".{name}").into(), offset);
            }
            Token::Punct("(") => {
                let inner = self.parse_expr()?;
                self.expect(")")?;
                return Ok(inner);
            }
            Token::Punct("[") => return self.parse_list(offset),
            Token::Punct("{") => return self.parse_map(offset),
            _ => Kind::Null,
        };
        self.make_expr(offset, kind)
    }

    fn int_value(&self, number: u64, negative: bool, offset: u32) -> Result<i64, CelError> {
        let signed = if negative { -i128::from(number) } else { i128::from(number) };
        let fail = |_| CelError::new(CelErrorKind::Syntax, offset as usize, "invalid int literal");
        i64::try_from(signed).map_err(fail)
    }

    fn parse_name(&mut self, name: Arc<str>, offset: u32) -> Parsed {
        if RESERVED.contains(&name.trim_start_matches('.')) {
            let message = format!("reserved identifier: {name}");
            return Err(CelError::new(CelErrorKind::Syntax, offset as usize, message));
        }
        let call = self.offset();
        if self.take_text("(") {
            let args = self.parse_arguments()?;
            return self.make_expr(call, Kind::Call { target: None, name, args });
        }
        self.make_expr(offset, Kind::Ident(name))
    }

    fn parse_list(&mut self, offset: u32) -> Parsed {
        let mut items = Vec::new();
        while !self.take_text("]") {
            let optional = self.take_text("?");
            items.push(Element { value: self.parse_expr()?, optional });
            if !self.take_text(",") {
                self.expect("]")?;
                break;
            }
        }
        self.make_expr(offset, Kind::List(items))
    }

    fn parse_map(&mut self, offset: u32) -> Parsed {
        let mut entries = Vec::new();
        while !self.take_text("}") {
            let optional = self.take_text("?");
            let key = self.parse_expr()?;
            self.expect(":")?;
            entries.push(Entry { key, value: self.parse_expr()?, optional });
            if !self.take_text(",") {
                self.expect("}")?;
                break;
            }
        }
        self.make_expr(offset, Kind::Map(entries))
    }
}
