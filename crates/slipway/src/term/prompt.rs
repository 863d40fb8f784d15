//! Questions to whoever sits at the terminal. The answer is an event.

use std::io::{BufRead as _, IsTerminal as _};

use slipway_event::{Event, Events, PromptAnswer};

use super::output;

/// Asks a question and judges the answer, which is none when nobody is there to give one.
pub fn ask<T, E>(
    question: &str,
    events: &Events,
    judge: impl FnOnce(Option<&str>) -> Result<T, E>,
) -> Result<T, E> {
    let answer = read_answer(question);
    let judged = judge(answer.as_deref());
    let answer = match (&answer, &judged) {
        (None, _) => PromptAnswer::Unanswered,
        (Some(_), Ok(_)) => PromptAnswer::Agreed,
        (Some(_), Err(_)) => PromptAnswer::Refused,
    };
    events.send(Event::PromptAnswered { question: question.to_owned(), answer });
    judged
}

fn read_answer(question: &str) -> Option<String> {
    if !std::io::stdin().is_terminal() {
        return None;
    }
    output::message(question);
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).ok()?;
    Some(answer)
}
