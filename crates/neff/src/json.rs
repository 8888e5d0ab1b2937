//! Short access to JSON values, with errors that name the key.

use serde_json::Value;

use crate::NeffError;

/// A value with the path that led to it.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    pub member: &'a str,
    pub value: &'a Value,
}

impl<'a> Node<'a> {
    pub fn get(self, key: &str) -> Option<Node<'a>> {
        self.value.get(key).map(|value| Node { member: self.member, value })
    }

    pub fn bad(self, problem: impl Into<String>) -> NeffError {
        NeffError::Member { member: self.member.to_owned(), problem: problem.into() }
    }

    pub fn text(self, key: &str) -> Option<&'a str> {
        self.value.get(key)?.as_str()
    }

    /// An unsigned number; JSON numbers and decimal texts are accepted, as the compiler writes both.
    pub fn number(self, key: &str) -> Option<u64> {
        let value = self.value.get(key)?;
        value.as_u64().or_else(|| value.as_str()?.parse().ok())
    }

    pub fn numbers(self, key: &str) -> Vec<u64> {
        let list = self.value.get(key).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_u64).collect()
    }

    pub fn items(self, key: &str) -> impl Iterator<Item = Node<'a>> {
        let member = self.member;
        let list = self.value.get(key).and_then(Value::as_array);
        list.into_iter().flatten().map(move |value| Node { member, value })
    }

    pub fn entries(self, key: &str) -> impl Iterator<Item = (&'a str, Node<'a>)> {
        let member = self.member;
        let map = self.value.get(key).and_then(Value::as_object);
        map.into_iter().flatten().map(move |(key, value)| (key.as_str(), Node { member, value }))
    }
}

/// A file that a member names lies beside it.
pub(crate) fn beside(member: &str, file: &str) -> String {
    match member.rsplit_once('/') {
        Some((directory, _)) => format!("{directory}/{file}"),
        None => file.to_owned(),
    }
}

/// Parses a member.
pub(crate) fn parse(member: &str, bytes: &[u8]) -> Result<Value, NeffError> {
    serde_json::from_slice(bytes)
        .map_err(|error| NeffError::Member { member: member.to_owned(), problem: format!("is no JSON: {error}") })
}
