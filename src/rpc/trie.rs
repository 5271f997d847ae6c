//! The keys that lead to the envelope's values and to the marks, as a tree to walk along while scanning.

use std::sync::OnceLock;

use super::Mark;
use super::marks::MARKS;

pub(super) type NodeId = u8;

/// No key of interest leads here.
pub(super) const NONE: NodeId = 0;
/// The object of a message.
pub(super) const ROOT: NodeId = 1;
pub(super) const JSONRPC: NodeId = 2;
pub(super) const ID: NodeId = 3;
pub(super) const METHOD: NodeId = 4;
pub(super) const PARAMS: NodeId = 5;
pub(super) const RESULT: NodeId = 6;
pub(super) const ERROR: NodeId = 7;
/// `_meta` of params.
pub(super) const META: NodeId = 8;
/// The array of a batch: stands in no tree.
pub(super) const BATCH: NodeId = 255;

/// How deep below the message's object a mark may lie, and two for the object and its batch.
pub(super) const LEVELS: usize = 8;

const SLOTS: usize = 64;

#[derive(Debug)]
struct Child {
    key: &'static str,
    node: NodeId,
    /// The next child in the same slot, counted from 1; 0 for none.
    next: u8,
}

#[derive(Debug)]
pub(super) struct Node {
    pub mark: Option<Mark>,
    /// The node of an object that stands here: itself, or none where no key inside is of interest.
    pub inside: NodeId,
    children: Vec<Child>,
    slots: [u8; SLOTS],
}

#[derive(Debug)]
pub(super) struct Trie {
    nodes: Vec<Node>,
}

fn slot(key: &[u8]) -> usize {
    let (first, last) = (key[0] as usize, key[key.len() - 1] as usize);
    (key.len() ^ (first << 1) ^ (last << 2)) % SLOTS
}

impl Trie {
    pub fn of_marks() -> &'static Trie {
        static TRIE: OnceLock<Trie> = OnceLock::new();
        TRIE.get_or_init(Trie::build)
    }

    fn build() -> Trie {
        let mut trie = Trie { nodes: Vec::new() };
        trie.add();
        trie.add();
        for (key, node) in [
            ("jsonrpc", JSONRPC),
            ("id", ID),
            ("method", METHOD),
            ("params", PARAMS),
            ("result", RESULT),
            ("error", ERROR),
        ] {
            assert_eq!(trie.reach(ROOT, key), node);
        }
        assert_eq!(trie.reach(PARAMS, "_meta"), META);
        for place in MARKS {
            assert!(place.path.len() + 2 <= LEVELS, "{} lies too deep", place.key);
            let node = place.path.iter().fold(ROOT, |node, key| trie.reach(node, key));
            trie.nodes[node as usize].mark = Some(place.mark);
        }
        trie
    }

    fn add(&mut self) -> NodeId {
        let id = NodeId::try_from(self.nodes.len()).ok().filter(|id| *id != BATCH).expect("fewer than 255 places");
        self.nodes.push(Node { mark: None, inside: NONE, children: Vec::new(), slots: [0; SLOTS] });
        id
    }

    fn reach(&mut self, node: NodeId, key: &'static str) -> NodeId {
        let known = self.find(node, key.as_bytes());
        if known != NONE {
            return known;
        }
        let child = self.add();
        let parent = &mut self.nodes[node as usize];
        let first = &mut parent.slots[slot(key.as_bytes())];
        parent.children.push(Child { key, node: child, next: *first });
        *first = parent.children.len() as u8;
        parent.inside = node;
        child
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    /// The node that `key` leads to.
    #[inline]
    pub fn find(&self, node: NodeId, key: &[u8]) -> NodeId {
        if key.is_empty() {
            return NONE;
        }
        let parent = &self.nodes[node as usize];
        let mut next = parent.slots[slot(key)];
        while next > 0 {
            let child = &parent.children[next as usize - 1];
            if child.key.as_bytes() == key {
                return child.node;
            }
            next = child.next;
        }
        NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_is_reached_by_its_path() {
        let trie = Trie::of_marks();
        for place in MARKS {
            let node = place.path.iter().fold(ROOT, |node, key| trie.find(node, key.as_bytes()));
            assert_eq!(trie.node(node).mark, Some(place.mark), "{}", place.key);
        }
        assert_eq!(trie.find(ROOT, b"ids"), NONE);
        assert_eq!(trie.find(ROOT, b""), NONE);
        assert_eq!(trie.node(ID).inside, NONE);
    }
}
