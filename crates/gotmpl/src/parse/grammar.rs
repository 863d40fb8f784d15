//! Tokens to trees, with Go's look-ahead so that its line numbers come out.

use std::sync::Arc;

use super::ParseError;
use super::ast::{
    BranchNode, ByteOffset, CommandNode, Expr, NumberLiteral, ParseTree, PipeNode, SourceText, StringLiteral,
    TemplateCall, TemplateNode, VariableNode, is_space,
};
use super::lex::{Lexer, Token, TokenKind};
use crate::func::FuncMap;
use crate::value::{RED_ZONE, SEGMENT};
use slipway_go::strconv;

type Result<T> = std::result::Result<T, ParseError>;

/// Parses a file: the tree of the file itself and one for each template it defines, in order of
/// their ends.
pub(crate) fn parse_file(
    name: &str,
    text: Arc<[u8]>,
    funcs: &FuncMap,
    max_depth: usize,
) -> Result<Vec<Arc<ParseTree>>> {
    let source = Arc::new(SourceText { name: name.to_owned(), text: Arc::clone(&text) });
    let mut shared =
        Shared { lexer: Lexer::new(&text), source: &source, funcs, trees: Vec::new(), depth: 0, max_depth };
    let mut parser = Parser::new(&mut shared);
    let root = parser.parse_nodes()?;
    parser.add_tree(name.to_owned(), root)?;
    Ok(shared.trees)
}

struct Shared<'a> {
    lexer: Lexer<'a>,
    source: &'a Arc<SourceText>,
    funcs: &'a FuncMap,
    trees: Vec<Arc<ParseTree>>,
    depth: usize,
    max_depth: usize,
}

/// Parses one tree. Definitions inside a file get a parser of their own over the same tokens.
struct Parser<'p, 'a> {
    shared: &'p mut Shared<'a>,
    tokens: [Token; 3],
    peeked: usize,
    vars: Vec<&'a str>,
    action_line: usize,
    ranges: usize,
}

/// The token that ended a list.
enum End {
    End,
    Else,
}

enum Item {
    Node(TemplateNode),
    End(End),
}

impl End {
    fn keyword_text(&self) -> &'static str {
        match self {
            End::End => "{{end}}",
            End::Else => "{{else}}",
        }
    }
}

impl<'p, 'a> Parser<'p, 'a> {
    fn new(shared: &'p mut Shared<'a>) -> Self {
        Parser { shared, tokens: [Token::NONE; 3], peeked: 0, vars: vec!["$"], action_line: 0, ranges: 0 }
    }

    // Tokens.

    fn next(&mut self) -> Token {
        if self.peeked > 0 {
            self.peeked -= 1;
        } else {
            self.tokens[0] = self.shared.lexer.next_token();
        }
        self.tokens[self.peeked]
    }

    fn backup(&mut self) {
        self.peeked += 1;
    }

    fn backup2(&mut self, first: Token) {
        self.tokens[1] = first;
        self.peeked = 2;
    }

    fn backup3(&mut self, first: Token, second: Token) {
        self.tokens[1] = second;
        self.tokens[2] = first;
        self.peeked = 3;
    }

    fn peek(&mut self) -> &Token {
        if self.peeked == 0 {
            self.peeked = 1;
            self.tokens[0] = self.shared.lexer.next_token();
        }
        &self.tokens[self.peeked - 1]
    }

    fn next_nonspace(&mut self) -> Token {
        loop {
            let token = self.next();
            if token.kind != TokenKind::Space {
                return token;
            }
        }
    }

    fn peek_nonspace(&mut self) -> Token {
        let token = self.next_nonspace();
        self.backup();
        token
    }

    fn token_bytes(&self, token: &Token) -> &'a [u8] {
        &self.shared.lexer.input()[token.start..token.end]
    }

    /// The text of a name or number, which the lexer lets be nothing but UTF-8.
    fn token_text(&self, token: &Token) -> &'a str {
        std::str::from_utf8(self.token_bytes(token)).unwrap_or_default()
    }

    // Errors.

    fn error_here<T>(&self, message: impl AsRef<str>) -> Result<T> {
        let line = self.tokens[0].line;
        let text = format!("template: {}:{line}: {}", self.shared.source.name, message.as_ref());
        Err(ParseError { text, line })
    }

    fn unexpected_token<T>(&self, token: &Token, context: &str) -> Result<T> {
        let shown = token.show_token(&self.shared.lexer);
        if token.kind != TokenKind::Error {
            return self.error_here(format!("unexpected {shown} in {context}"));
        }
        let mut extra = String::new();
        if self.action_line != 0 && self.action_line != token.line {
            let place = format!(" started at {}:{}", self.shared.source.name, self.action_line);
            extra = if shown.ends_with(" action") { place } else { format!(" in action{place}") };
        }
        self.error_here(format!("{shown}{extra}"))
    }

    fn expect_token(&mut self, kind: TokenKind, context: &str) -> Result<Token> {
        let token = self.next_nonspace();
        if token.kind != kind {
            return self.unexpected_token(&token, context);
        }
        Ok(token)
    }

    fn enter_nested<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.shared.depth >= self.shared.max_depth {
            let limit = self.shared.max_depth;
            return self.error_here(format!("template nests more than {limit} levels deep"));
        }
        self.shared.depth += 1;
        let out = stacker::maybe_grow(RED_ZONE, SEGMENT, || f(self));
        self.shared.depth -= 1;
        out
    }

    // Structure.

    fn add_tree(&mut self, name: String, root: Vec<TemplateNode>) -> Result<()> {
        let tree = Arc::new(ParseTree { name, source: Arc::clone(self.shared.source), root: Arc::new(root) });
        match self.shared.trees.iter_mut().find(|t| t.name == tree.name) {
            None => self.shared.trees.push(tree),
            Some(old) if old.is_empty() => *old = tree,
            Some(_) if tree.is_empty() => {}
            Some(_) => {
                let name = strconv::quote(tree.name.as_bytes());
                let name = String::from_utf8_lossy(&name);
                return self.error_here(format!("template: multiple definition of template {name}"));
            }
        }
        Ok(())
    }

    fn parse_nodes(&mut self) -> Result<Vec<TemplateNode>> {
        let mut root = Vec::new();
        while self.peek().kind != TokenKind::Eof {
            if self.peek().kind == TokenKind::LeftDelim {
                let delim = self.next();
                if self.next_nonspace().kind == TokenKind::Define {
                    Parser::new(self.shared).parse_definition()?;
                    continue;
                }
                self.backup2(delim);
            }
            match self.text_or_action()? {
                Item::Node(node) => root.push(node),
                Item::End(end) => return self.error_here(format!("unexpected {}", end.keyword_text())),
            }
        }
        Ok(root)
    }

    fn parse_definition(mut self) -> Result<()> {
        const CONTEXT: &str = "define clause";
        let token = self.next_nonspace();
        let name = self.template_name(&token, CONTEXT)?;
        self.expect_token(TokenKind::RightDelim, CONTEXT)?;
        let (root, end) = self.parse_list()?;
        if !matches!(end, End::End) {
            return self.error_here(format!("unexpected {} in {CONTEXT}", end.keyword_text()));
        }
        self.add_tree(name, root)
    }

    fn parse_list(&mut self) -> Result<(Vec<TemplateNode>, End)> {
        self.enter_nested(|p| {
            let mut list = Vec::new();
            while p.peek_nonspace().kind != TokenKind::Eof {
                match p.text_or_action()? {
                    Item::Node(node) => list.push(node),
                    Item::End(end) => return Ok((list, end)),
                }
            }
            p.error_here("unexpected EOF")
        })
    }

    fn text_or_action(&mut self) -> Result<Item> {
        let token = self.next_nonspace();
        match token.kind {
            TokenKind::Text => Ok(Item::Node(TemplateNode::Text(token.start..token.end))),
            TokenKind::LeftDelim => {
                self.action_line = token.line;
                let item = self.parse_action()?;
                self.action_line = 0;
                Ok(item)
            }
            _ => self.unexpected_token(&token, "input"),
        }
    }

    fn parse_action(&mut self) -> Result<Item> {
        let token = self.next_nonspace();
        Ok(Item::Node(match token.kind {
            TokenKind::Block => self.parse_block()?,
            TokenKind::Break => {
                self.loop_exit("{{break}}")?;
                TemplateNode::Break
            }
            TokenKind::Continue => {
                self.loop_exit("{{continue}}")?;
                TemplateNode::Continue
            }
            TokenKind::Else => {
                if !matches!(self.peek_nonspace().kind, TokenKind::If | TokenKind::With) {
                    self.expect_token(TokenKind::RightDelim, "else")?;
                }
                return Ok(Item::End(End::Else));
            }
            TokenKind::End => {
                self.expect_token(TokenKind::RightDelim, "end")?;
                return Ok(Item::End(End::End));
            }
            TokenKind::If => TemplateNode::If(Box::new(self.parse_control("if")?)),
            TokenKind::With => TemplateNode::With(Box::new(self.parse_control("with")?)),
            TokenKind::Range => TemplateNode::Range(Box::new(self.parse_control("range")?)),
            TokenKind::Template => self.call()?,
            _ => {
                if let Some(text) = self.literal_text(&token) {
                    return Ok(Item::Node(text));
                }
                self.backup();
                let pos = self.peek().start;
                TemplateNode::Action(pos, self.parse_pipeline("command", TokenKind::RightDelim)?)
            }
        }))
    }

    /// An action that is nothing but a string is text: dashboards and alerts are full of `{{ "{{" }}`.
    ///
    /// After the string has been looked at, everything is as if it had just been read.
    fn literal_text(&mut self, token: &Token) -> Option<TemplateNode> {
        if !matches!(token.kind, TokenKind::String | TokenKind::RawString) || self.peeked > 0 {
            return None;
        }
        let inner = token.start + 1..token.end - 1;
        let text = &self.shared.lexer.input()[inner.clone()];
        // Text of only space would let another definition replace the one it is in.
        if text.iter().any(|byte| matches!(byte, b'\\' | b'\r')) || is_space(text) {
            return None;
        }
        if std::str::from_utf8(text).is_err() {
            return None;
        }
        let second = self.next();
        if second.kind == TokenKind::RightDelim {
            return Some(TemplateNode::Text(inner));
        }
        if second.kind == TokenKind::Space {
            if self.next().kind == TokenKind::RightDelim {
                return Some(TemplateNode::Text(inner));
            }
            self.backup3(*token, second);
        } else {
            self.backup2(*token);
        }
        self.next();
        None
    }

    fn loop_exit(&mut self, what: &str) -> Result<()> {
        let token = self.next_nonspace();
        if token.kind != TokenKind::RightDelim {
            return self.unexpected_token(&token, what);
        }
        if self.ranges == 0 {
            return self.error_here(format!("{what} outside {{{{range}}}}"));
        }
        Ok(())
    }

    fn parse_control(&mut self, context: &'static str) -> Result<BranchNode> {
        self.enter_nested(|p| p.parse_branch(context))
    }

    fn parse_branch(&mut self, context: &'static str) -> Result<BranchNode> {
        let scope = self.vars.len();
        let pipe = self.parse_pipeline(context, TokenKind::RightDelim)?;
        let ranging = usize::from(context == "range");
        self.ranges += ranging;
        let (list, end) = self.parse_list()?;
        self.ranges -= ranging;
        let otherwise = match end {
            End::End => None,
            // `{{else if}}` is `{{else}}{{if}}` whose one `{{end}}` closes both.
            End::Else if context == "if" && self.peek().kind == TokenKind::If => {
                self.next();
                Some(vec![TemplateNode::If(Box::new(self.parse_control("if")?))])
            }
            End::Else if context == "with" && self.peek().kind == TokenKind::With => {
                self.next();
                Some(vec![TemplateNode::With(Box::new(self.parse_control("with")?))])
            }
            End::Else => {
                let (list, end) = self.parse_list()?;
                if !matches!(end, End::End) {
                    return self.error_here(format!("expected end; found {}", end.keyword_text()));
                }
                Some(list)
            }
        };
        self.vars.truncate(scope);
        Ok(BranchNode { pipe, list, otherwise })
    }

    fn template_name(&mut self, token: &Token, context: &str) -> Result<String> {
        if !matches!(token.kind, TokenKind::String | TokenKind::RawString) {
            return self.unexpected_token(token, context);
        }
        match strconv::unquote(self.token_bytes(token)) {
            Some(name) => Ok(String::from_utf8_lossy(&name).into_owned()),
            None => self.error_here("invalid syntax"),
        }
    }

    fn call(&mut self) -> Result<TemplateNode> {
        const CONTEXT: &str = "template clause";
        let token = self.next_nonspace();
        let name = self.template_name(&token, CONTEXT)?;
        let mut pipe = None;
        if self.next_nonspace().kind != TokenKind::RightDelim {
            self.backup();
            pipe = Some(self.parse_pipeline(CONTEXT, TokenKind::RightDelim)?);
        }
        Ok(TemplateNode::Template(Box::new(TemplateCall { pos: token.start, name, pipe })))
    }

    fn parse_block(&mut self) -> Result<TemplateNode> {
        const CONTEXT: &str = "block clause";
        let token = self.next_nonspace();
        let name = self.template_name(&token, CONTEXT)?;
        let pipe = self.parse_pipeline(CONTEXT, TokenKind::RightDelim)?;
        let mut body = Parser::new(self.shared);
        let (root, end) = body.parse_list()?;
        if !matches!(end, End::End) {
            return self.error_here(format!("unexpected {} in {CONTEXT}", end.keyword_text()));
        }
        body.add_tree(name.clone(), root)?;
        Ok(TemplateNode::Template(Box::new(TemplateCall { pos: token.start, name, pipe: Some(pipe) })))
    }

    // Expressions.

    fn parse_pipeline(&mut self, context: &str, end: TokenKind) -> Result<PipeNode> {
        let pos = self.peek_nonspace().start;
        // Most pipelines are one command, and there are very many of them.
        let mut pipe = PipeNode { pos, decls: Vec::new(), assign: false, commands: Vec::with_capacity(1) };
        self.parse_declarations(&mut pipe, context)?;
        loop {
            let token = self.next_nonspace();
            match token.kind {
                k if k == end => {
                    self.check_pipeline(&pipe, context)?;
                    return Ok(pipe);
                }
                TokenKind::Bool
                | TokenKind::CharConstant
                | TokenKind::Complex
                | TokenKind::Dot
                | TokenKind::Field
                | TokenKind::Identifier
                | TokenKind::Number
                | TokenKind::Nil
                | TokenKind::RawString
                | TokenKind::String
                | TokenKind::Variable
                | TokenKind::LeftParen => {
                    self.backup();
                    pipe.commands.push(self.parse_command()?);
                }
                _ => return self.unexpected_token(&token, context),
            }
        }
    }

    fn parse_declarations(&mut self, pipe: &mut PipeNode, context: &str) -> Result<()> {
        loop {
            let var = self.peek_nonspace();
            if var.kind != TokenKind::Variable {
                return Ok(());
            }
            self.next();
            // `$x foo` and `$x := foo` differ only at the third token.
            let after = *self.peek();
            let next = self.peek_nonspace();
            let declare = |p: &mut Self, pipe: &mut PipeNode| {
                p.next_nonspace();
                let name = p.token_text(&var);
                pipe.decls.push(VariableNode::new(var.start, name, name.len()));
                p.vars.push(name);
            };
            match next.kind {
                TokenKind::Assign | TokenKind::Declare => {
                    pipe.assign = next.kind == TokenKind::Assign;
                    declare(self, pipe);
                }
                TokenKind::Char if self.token_bytes(&next) == b"," => {
                    declare(self, pipe);
                    if context == "range" && pipe.decls.len() < 2 {
                        if matches!(
                            self.peek_nonspace().kind,
                            TokenKind::Variable | TokenKind::RightDelim | TokenKind::RightParen
                        ) {
                            continue;
                        }
                        return self.error_here("range can only initialize variables");
                    }
                    return self.error_here(format!("too many declarations in {context}"));
                }
                _ if after.kind == TokenKind::Space => self.backup3(var, after),
                _ => self.backup2(var),
            }
            return Ok(());
        }
    }

    fn check_pipeline(&self, pipe: &PipeNode, context: &str) -> Result<()> {
        if pipe.commands.is_empty() {
            return self.error_here(format!("missing value for {context}"));
        }
        for (i, c) in pipe.commands.iter().enumerate().skip(1) {
            if matches!(
                c.args[0],
                Expr::Bool(..) | Expr::Dot(_) | Expr::Nil(_) | Expr::Number(_) | Expr::String(..)
            ) {
                return self.error_here(format!("non executable command in pipeline stage {}", i + 1));
            }
        }
        Ok(())
    }

    fn parse_command(&mut self) -> Result<CommandNode> {
        let mut command = CommandNode { pos: self.peek_nonspace().start, args: Vec::with_capacity(1) };
        loop {
            self.peek_nonspace();
            if let Some(operand) = self.parse_operand()? {
                command.args.push(operand);
            }
            let token = self.next();
            match token.kind {
                TokenKind::Space => continue,
                TokenKind::RightDelim | TokenKind::RightParen => self.backup(),
                TokenKind::Pipe => {}
                _ => return self.unexpected_token(&token, "operand"),
            }
            break;
        }
        if command.args.is_empty() {
            return self.error_here("empty command");
        }
        Ok(command)
    }

    fn parse_operand(&mut self) -> Result<Option<Expr>> {
        let Some(node) = self.parse_term()? else { return Ok(None) };
        if self.peek().kind != TokenKind::Field {
            return Ok(Some(node));
        }
        if let Expr::Bool(..) | Expr::String(..) | Expr::Number(_) | Expr::Nil(_) | Expr::Dot(_) = node {
            let shown = strconv::quote(node.to_string().as_bytes());
            return self.error_here(format!("unexpected . after term {}", String::from_utf8_lossy(&shown)));
        }
        let first = self.next();
        let (_, names) = self.join_fields(first);
        Ok(Some(Expr::Chain(first.start, Box::new(node), names.strip_prefix('.').unwrap_or(names).into())))
    }

    /// The text of a token and of the fields that follow it, which lie side by side, and where Go
    /// says that it is: at the first of these fields.
    fn join_fields(&mut self, first: Token) -> (ByteOffset, &'a str) {
        let mut whole = first;
        let mut pos = None;
        while self.peek().kind == TokenKind::Field {
            let field = self.next();
            pos = pos.or(Some(field.start));
            whole.end = field.end;
        }
        (pos.unwrap_or(first.start), self.token_text(&whole))
    }

    fn parse_term(&mut self) -> Result<Option<Expr>> {
        let token = self.next_nonspace();
        let pos: ByteOffset = token.start;
        Ok(Some(match token.kind {
            TokenKind::Identifier => {
                let name = String::from_utf8_lossy(self.token_bytes(&token));
                match self.shared.funcs.entry(&name) {
                    Some((name, f)) => Expr::Ident(pos, Arc::clone(name), Arc::clone(f)),
                    None => {
                        let name = strconv::quote(name.as_bytes());
                        return self
                            .error_here(format!("function {} not defined", String::from_utf8_lossy(&name)));
                    }
                }
            }
            TokenKind::Dot => Expr::Dot(pos),
            TokenKind::Nil => Expr::Nil(pos),
            TokenKind::Variable => {
                let name = self.token_text(&token);
                if !self.vars.contains(&name) {
                    let name = strconv::quote(name.as_bytes());
                    return self.error_here(format!("undefined variable {}", String::from_utf8_lossy(&name)));
                }
                let (pos, text) = self.join_fields(token);
                Expr::Variable(VariableNode::new(pos, text, name.len()))
            }
            TokenKind::Field => {
                let (pos, names) = self.join_fields(token);
                Expr::Field(pos, names.strip_prefix('.').unwrap_or(names).into())
            }
            TokenKind::Bool => Expr::Bool(pos, self.token_bytes(&token) == b"true"),
            TokenKind::CharConstant | TokenKind::Complex | TokenKind::Number => {
                match NumberLiteral::parse_literal(
                    pos,
                    &String::from_utf8_lossy(self.token_bytes(&token)),
                    token.kind,
                ) {
                    Ok(n) => Expr::Number(Box::new(n)),
                    Err(error) => return self.error_here(error.as_str()),
                }
            }
            TokenKind::LeftParen => {
                let pipe =
                    self.enter_nested(|p| p.parse_pipeline("parenthesized pipeline", TokenKind::RightParen))?;
                Expr::Pipe(Box::new(pipe))
            }
            TokenKind::String | TokenKind::RawString => {
                let written = self.token_bytes(&token);
                match strconv::unquote(written) {
                    Some(s) => {
                        let plain = written.get(1..written.len() - 1) == Some(&s);
                        let written = match written.first() {
                            Some(mark) if plain => StringLiteral::Between(*mark),
                            _ => StringLiteral::As(written.into()),
                        };
                        Expr::String(pos, s.into(), written)
                    }
                    None => return self.error_here("invalid syntax"),
                }
            }
            _ => {
                self.backup();
                return Ok(None);
            }
        }))
    }
}
