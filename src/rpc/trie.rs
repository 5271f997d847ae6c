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
    head: u64,
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

/// The first eight bytes of a key, or all of it and zeros.
fn head_of(key: &[u8]) -> u64 {
    key.iter().take(8).rev().fold(0, |head, byte| head << 8 | u64::from(*byte))
}

fn slot(head: u64, length: usize) -> usize {
    ((head ^ length as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % SLOTS
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
        let head = head_of(key.as_bytes());
        let first = &mut parent.slots[slot(head, key.len())];
        parent.children.push(Child { key, head, node: child, next: *first });
        *first = parent.children.len() as u8;
        parent.inside = node;
        child
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    /// The node that `key` leads to.
    pub fn find(&self, node: NodeId, key: &[u8]) -> NodeId {
        self.find_with_head(node, key, head_of(key))
    }

    /// The node that the key `bytes[from..to]` leads to.
    #[inline(always)]
    pub fn find_in(&self, node: NodeId, bytes: &[u8], from: usize, to: usize) -> NodeId {
        let key = &bytes[from..to];
        // Behind a key almost always lies enough to load its first eight bytes in one go.
        let head = match bytes[from..].first_chunk::<8>() {
            Some(head) if key.len() < 8 => u64::from_le_bytes(*head) & ((1 << (8 * key.len())) - 1),
            Some(head) => u64::from_le_bytes(*head),
            None => head_of(key),
        };
        self.find_with_head(node, key, head)
    }

    #[inline(always)]
    fn find_with_head(&self, node: NodeId, key: &[u8], head: u64) -> NodeId {
        let parent = &self.nodes[node as usize];
        let mut next = parent.slots[slot(head, key.len())];
        while next > 0 {
            let child = &parent.children[next as usize - 1];
            if child.head == head
                && child.key.len() == key.len()
                && (key.len() <= 8 || child.key.as_bytes()[8..] == key[8..])
            {
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
            let text = format!("{}\":1", place.path[0]);
            for end in [text.len(), place.path[0].len()] {
                let found = trie.find_in(ROOT, &text.as_bytes()[..end], 0, place.path[0].len());
                assert_eq!(found, trie.find(ROOT, place.path[0].as_bytes()));
            }
        }
        assert_eq!(trie.find(ROOT, b"ids"), NONE);
        assert_eq!(trie.find(ROOT, b""), NONE);
        assert_eq!(trie.node(ID).inside, NONE);
    }
}
