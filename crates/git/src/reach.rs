//! Everything that commits need, for a pack. Each tree is visited once and nothing is called below itself, so that neither trees
//! a thousand folders deep nor one tree under a billion names cost more than the objects that there are. libgit2's own walks
//! (`insert_walk`, `insert_commit`) use the stack, and visit every file of commits that are known already.

use std::collections::{HashMap, HashSet};

use git2::{ObjectType, OdbLookupFlags, Oid, PackBuilder, Repository, Tree};

use super::log::Header;
use super::loose::Loose;

/// Returns the commits that are in the history of those `wanted` and not in that of those `known`, which `to` has with all they
/// need. Reads nothing of `from` that it hasn't looked at.
pub(super) fn lacked(
    from: &Repository,
    to: &Repository,
    wanted: &[Oid],
    known: &[Oid],
) -> Result<Vec<Oid>, git2::Error> {
    let (loose, there) = (Loose::of(from), to.odb()?);
    let mut visited: HashSet<Oid> = known.iter().copied().collect();
    let (mut next, mut found) = (wanted.to_vec(), Vec::new());
    while let Some(id) = next.pop() {
        // A commit alone may be there without the ones before it: of a pack that was taken before a copy broke off.
        let is_known = |id| {
            let has = |known: &Oid| to.graph_descendant_of(*known, id).unwrap_or(false);
            there.exists_ext(id, OdbLookupFlags::NO_REFRESH) && known.iter().any(has)
        };
        if visited.insert(id) && !is_known(id) {
            next.extend(commit(from, &loose, id)?.parents);
            found.push(id);
        }
    }
    Ok(found)
}

fn commit(from: &Repository, loose: &Loose, id: Oid) -> Result<Header, git2::Error> {
    loose.check(id)?;
    Header::of(from, id)
}

/// Adds commits and what they need, as far as it is lacked. What is in the same place of a commit's first parent is not
/// looked at: the parent is among the commits, or known.
///
/// Each commit comes after its first parent. A tree is looked at once; when it comes back later in the history, everything
/// in it was added with a commit before. The other way round it would be left to a parent, and never looked at there.
pub(super) fn insert(
    from: &Repository,
    pack: &mut PackBuilder<'_>,
    commits: impl Iterator<Item = Result<Oid, git2::Error>>,
    lacks: &impl Fn(Oid) -> bool,
) -> Result<(), git2::Error> {
    let mut walk = Walk {
        from,
        loose: Loose::of(from),
        pack,
        lacks,
        visited: HashSet::new(),
        trees: Vec::new(),
    };
    let (mut order, mut headers) = (Vec::new(), HashMap::new());
    for id in commits {
        let id = id?;
        order.push(id);
        headers.insert(id, commit(from, &walk.loose, id)?);
    }
    for id in order {
        let mut line = Vec::new();
        let mut next = Some(id);
        while let Some((id, header)) = next.and_then(|id| headers.remove_entry(&id)) {
            next = header.parents.first().copied();
            line.push((id, header));
        }
        for (id, header) in line.into_iter().rev() {
            walk.add(id)?;
            let before = header.parents.first();
            let before = before.and_then(|parent| commit(from, &walk.loose, *parent).ok());
            walk.trees.push((before.map(|before| before.tree), header.tree));
            walk.visit()?;
        }
    }
    Ok(())
}

/// Returns an error if a tree, or one below it, is an object that can't be read.
pub(super) fn check_trees(repo: &Repository, root: Oid) -> Result<(), git2::Error> {
    let loose = Loose::of(repo);
    let (mut next, mut seen) = (vec![root], HashSet::from([root]));
    while let Some(id) = next.pop() {
        loose.check(id)?;
        for entry in &repo.find_tree(id)? {
            if entry.kind() == Some(ObjectType::Tree) && seen.insert(entry.id()) {
                next.push(entry.id());
            }
        }
    }
    Ok(())
}

struct Walk<'a, 'p, F> {
    from: &'a Repository,
    loose: Loose,
    pack: &'a mut PackBuilder<'p>,
    lacks: &'a F,
    visited: HashSet<Oid>,
    /// Still to visit, each with what was in its place before.
    trees: Vec<(Option<Oid>, Oid)>,
}

impl<'a, F: Fn(Oid) -> bool> Walk<'a, '_, F> {
    fn visit(&mut self) -> Result<(), git2::Error> {
        while let Some((before, id)) = self.trees.pop() {
            if before == Some(id) || !self.visited.insert(id) {
                continue;
            }
            self.add(id)?;
            let before = before.map(|id| self.tree(id)).transpose()?;
            for entry in &self.tree(id)? {
                let was = before
                    .as_ref()
                    .and_then(|before| before.get_name_bytes(entry.name_bytes()));
                if was.as_ref().is_some_and(|was| was.id() == entry.id()) {
                    continue;
                }
                match entry.kind() {
                    Some(ObjectType::Tree) => {
                        let was = was.filter(|was| was.kind() == Some(ObjectType::Tree));
                        self.trees.push((was.map(|was| was.id()), entry.id()));
                    }
                    Some(ObjectType::Blob) => self.add(entry.id())?,
                    // A submodule: its commit is in another repository.
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn tree(&self, id: Oid) -> Result<Tree<'a>, git2::Error> {
        self.loose.check(id)?;
        self.from.find_tree(id)
    }

    fn add(&mut self, id: Oid) -> Result<(), git2::Error> {
        if (self.lacks)(id) {
            self.loose.check(id)?;
            self.pack.insert_object(id, None)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use git2::{Signature, Time};

    use super::super::local;
    use super::*;

    /// Commits trees that lie in each other, each under so many names.
    fn nested(repo: &Repository, depth: usize, names: usize) -> Oid {
        let mut inside = (repo.blob(b"text").unwrap(), 0o100_644);
        for _ in 0..depth {
            let mut builder = repo.treebuilder(None).unwrap();
            for name in 0..names {
                builder.insert(format!("d{name}"), inside.0, inside.1).unwrap();
            }
            inside = (builder.write().unwrap(), 0o040_000);
        }
        let who = Signature::new("a", "a@b", &Time::new(0, 0)).unwrap();
        let tree = repo.find_tree(inside.0).unwrap();
        repo.commit(Some("refs/heads/main"), &who, &who, "m", &tree, &[])
            .unwrap()
    }

    /// Few files with few contents, so trees come back; with merges. Returns the commits.
    fn history(repo: &Repository, rng: &mut fastrand::Rng, count: usize) -> Vec<Oid> {
        let who = Signature::new("a", "a@b", &Time::new(0, 0)).unwrap();
        let mut commits: Vec<Oid> = Vec::new();
        for number in 0..count {
            let mut root = repo.treebuilder(None).unwrap();
            for folder in ["d", "e"] {
                let mut inside = repo.treebuilder(None).unwrap();
                for file in ["f", "g"] {
                    let content = format!("{folder}/{file} {}", rng.u8(0..2));
                    let blob = repo.blob(content.as_bytes()).unwrap();
                    if rng.u8(0..4) > 0 {
                        inside.insert(file, blob, 0o100_644).unwrap();
                    }
                }
                if rng.bool() {
                    root.insert(folder, inside.write().unwrap(), 0o040_000).unwrap();
                }
            }
            let file = repo.blob(&[rng.u8(b'0'..b'2')]).unwrap();
            root.insert("a", file, 0o100_644).unwrap();
            let tree = repo.find_tree(root.write().unwrap()).unwrap();
            let recent = commits.len().saturating_sub(3)..commits.len();
            let mut parents: Vec<Oid> = recent.map(|at| commits[at]).filter(|_| rng.bool()).collect();
            rng.shuffle(&mut parents);
            let parents: Vec<_> = parents.iter().map(|id| repo.find_commit(*id).unwrap()).collect();
            let parents: Vec<_> = parents.iter().collect();
            commits.push(
                repo.commit(None, &who, &who, &number.to_string(), &tree, &parents)
                    .unwrap(),
            );
        }
        commits
    }

    /// Every commit that can be reached has all its files.
    fn is_whole(repo: &Repository, tips: &[Oid]) -> bool {
        let mut walk = repo.revwalk().unwrap();
        for tip in tips {
            walk.push(*tip).unwrap();
        }
        walk.map(|id| repo.find_commit(id.unwrap()).unwrap().tree_id())
            .all(|tree| {
                let mut trees = vec![tree];
                while let Some(id) = trees.pop() {
                    let Ok(tree) = repo.find_tree(id) else {
                        return false;
                    };
                    for entry in &tree {
                        match entry.kind() {
                            Some(ObjectType::Tree) => trees.push(entry.id()),
                            _ if repo.find_blob(entry.id()).is_err() => return false,
                            _ => {}
                        }
                    }
                }
                true
            })
    }

    #[test]
    fn whatever_comes_back_in_a_history_all_of_it_is_there() {
        for seed in 0..200 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let directory = tempfile::tempdir().unwrap();
            let [from, to] = ["from", "to"].map(|name| {
                let repo = Repository::init_bare(directory.path().join(name)).unwrap();
                repo.odb().unwrap().add_new_mempack_backend(1000).unwrap();
                repo
            });
            let commits = history(&from, &mut rng, 12);
            let mut known: Vec<Oid> = Vec::new();
            // All at once, or in parts.
            for end in [rng.usize(1..12), 12] {
                let tips: Vec<Oid> = commits[..end].to_vec();
                local::copy(&from, &to, &tips, &known).unwrap();
                assert!(is_whole(&to, &tips), "seed {seed}, {end} commits");
                known = tips;
            }
        }
    }

    #[test]
    fn deep_trees_and_one_tree_under_many_names_cost_what_there_is() {
        for (depth, names) in [(12_000, 1), (40, 10)] {
            let directory = tempfile::tempdir().unwrap();
            let repo = Repository::init_bare(directory.path()).unwrap();
            let odb = repo.odb().unwrap();
            // In memory: a file for each folder takes seconds.
            odb.add_new_mempack_backend(1000).unwrap();
            let tip = nested(&repo, depth, names);
            let mut pack = repo.packbuilder().unwrap();
            insert(&repo, &mut pack, std::iter::once(Ok(tip)), &|_| true).unwrap();
            assert_eq!(pack.object_count(), depth + 2);
        }
    }
}
