use std::time::Duration;

use git2::{Repository, Signature};
use tempfile::TempDir;

use super::*;
use cutover_base::budget::Budget;
use cutover_git::{Options, RemoteUrl};

/// A repository on this machine, and what reads it.
struct Scene {
    origin: Repository,
    source: Source,
    folders: [TempDir; 2],
}

impl Scene {
    async fn within(budget: Budget) -> Self {
        let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
        let origin = Repository::init_bare(folders[0].path()).unwrap();
        let url: RemoteUrl = folders[0].path().to_str().unwrap().parse().unwrap();
        let options = Options::new(url, "main", folders[1].path()).within(budget);
        let repo = Repo::open(options, CancellationToken::new()).await.unwrap();
        Self {
            origin,
            source: Source::new(repo, Selection::default()),
            folders,
        }
    }

    /// Commits these files and no others.
    async fn push(&self, files: &[(&str, &str)]) -> Revision {
        let mut update = git2::build::TreeUpdateBuilder::new();
        for (path, content) in files {
            let blob = self.origin.blob(content.as_bytes()).unwrap();
            update.upsert(*path, blob, git2::FileMode::Blob);
        }
        let empty = self.origin.treebuilder(None).unwrap().write().unwrap();
        let empty = self.origin.find_tree(empty).unwrap();
        let tree = update.create_updated(&self.origin, &empty).unwrap();
        let tree = self.origin.find_tree(tree).unwrap();
        let parent = self.origin.find_reference("refs/heads/main").ok();
        let parent = parent.map(|head| head.peel_to_commit().unwrap());
        let who = Signature::new("a", "a@example.com", &git2::Time::new(0, 0)).unwrap();
        self.origin
            .commit(
                Some("refs/heads/main"),
                &who,
                &who,
                "x",
                &tree,
                parent.as_ref().as_slice(),
            )
            .unwrap();
        self.source.repo.fetch().await.unwrap().revision
    }

    /// Makes the mirror anew without one content, as a disk that has lost it does.
    fn lose(&self, content: &str) {
        let mirror = self.folders[1].path().join("mirror.git");
        let lost = git2::Oid::hash_object(git2::ObjectType::Blob, content.as_bytes()).unwrap();
        let before = Repository::open_bare(&mirror).unwrap();
        let odb = before.odb().unwrap();
        let mut kept = Vec::new();
        odb.foreach(|id| {
            let object = odb.read(*id).unwrap();
            if *id != lost {
                kept.push((object.kind(), object.data().to_vec()));
            }
            true
        })
        .unwrap();
        std::fs::remove_dir_all(mirror.join("objects")).unwrap();
        std::fs::create_dir_all(mirror.join("objects/pack")).unwrap();
        let after = Repository::open_bare(&mirror).unwrap();
        for (kind, data) in kept {
            after.odb().unwrap().write(kind, &data).unwrap();
        }
    }

    async fn advance(&mut self, to: &Revision) -> Result<(), repo::Error> {
        self.source.advance(to, |_| ()).await.map(|_| ())
    }

    fn names(&self) -> Vec<String> {
        self.source
            .set
            .iter()
            .map(|entry| entry.key.name.clone())
            .collect()
    }
}

fn map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n---\n")
}

#[tokio::test]
async fn a_revision_over_the_budget_is_refused_as_a_whole() {
    let budget = Budget::default().with(Limit::RevisionObjects, 3);
    let mut scene = Scene::within(budget).await;
    let first = scene.push(&[("a.yaml", &map("a")), ("b.yaml", &map("b"))]).await;
    scene.advance(&first).await.unwrap();

    let many: String = ["c", "d", "e"].map(map).concat();
    let second = scene.push(&[("a.yaml", &map("other")), ("c.yaml", &many)]).await;
    for _ in 0..2 {
        let error = scene.advance(&second).await.unwrap_err();
        assert!(matches!(error, repo::Error::OverBudget(over) if over.limit == Limit::RevisionObjects));
    }
    assert_eq!(scene.names(), ["a", "b"]);
    assert_eq!(scene.source.in_force(&second), Some(first.clone()));
    let told = scene.source.first_problems();
    assert_eq!(told.len(), 1);
    let message = told[0].message.replace(second.short(), "NEW");
    assert_eq!(
        message,
        "revision NEW is not applied, the one before stays in force: more than 3 objects in a revision \
         (limit revision-objects)"
    );

    let third = scene.push(&[("c.yaml", &many)]).await;
    scene.advance(&third).await.unwrap();
    assert_eq!(scene.names(), ["c", "d", "e"]);
    assert_eq!(scene.source.first_problems(), []);
}

#[tokio::test]
async fn one_content_under_many_names_is_refused_before_it_is_read() {
    let budget = Budget::default().with(Limit::RevisionBytes, 1 << 20);
    let mut scene = Scene::within(budget).await;
    let content = "#".repeat(4 << 10);
    let names: Vec<String> = (0..400).map(|number| format!("{number}.yaml")).collect();
    let files: Vec<_> = names
        .iter()
        .map(|name| (name.as_str(), content.as_str()))
        .collect();
    let revision = scene.push(&files[..]).await;
    let error = scene.advance(&revision).await.unwrap_err();
    assert!(matches!(error, repo::Error::OverBudget(over) if over.limit == Limit::RevisionBytes));
}

#[tokio::test]
async fn what_a_file_over_the_budget_defined_before_is_frozen() {
    let mut scene = Scene::within(Budget::default()).await;
    let first = scene.push(&[("a.yaml", &map("a"))]).await;
    scene.advance(&first).await.unwrap();
    let aliases = "*x, ".repeat(1000);
    let bomb = format!(
        "{}x: &x {}\nz: [{aliases}]\n",
        &map("a")[..map("a").len() - 4],
        "x".repeat(40_000)
    );
    let too_large = "#".repeat((4 << 20) + 1);
    for content in [bomb, too_large] {
        let next = scene.push(&[("a.yaml", &content)]).await;
        scene.advance(&next).await.unwrap();
        let frozen: Vec<_> = scene.source.frozen().map(|key| key.name.as_str()).collect();
        assert_eq!(frozen, ["a"]);
        assert!(scene.source.has_gaps());
        let told = scene.source.first_problems();
        assert_eq!(told[0].at.as_ref().unwrap().path, "a.yaml");
        assert!(
            told[0].hint.as_ref().unwrap().contains("--budget file-"),
            "{told:?}"
        );
    }
}

#[tokio::test]
async fn what_goes_gives_its_part_of_the_budget_back() {
    let budget = Budget::default().with(Limit::RevisionFiles, 2);
    let mut scene = Scene::within(budget).await;
    for round in 0..5 {
        let (name, broken) = (format!("{round}.yaml"), format!("b{round}.yaml"));
        let files = [(name.as_str(), map("a")), (broken.as_str(), "a: [".to_owned())];
        let files = files.each_ref().map(|(name, content)| (*name, content.as_str()));
        let revision = scene.push(&files).await;
        scene.advance(&revision).await.unwrap();
        assert_eq!(scene.source.size.files, 1);
    }
    let last = scene.push(&[]).await;
    scene.advance(&last).await.unwrap();
    assert_eq!(scene.source.size, Size::default());
}

#[tokio::test]
async fn an_order_to_stop_ends_reading_and_takes_nothing_in() {
    let mut scene = Scene::within(Budget::default()).await;
    let revision = scene.push(&[("a.yaml", &map("a"))]).await;
    scene.source.stop.cancel();
    let error = scene.advance(&revision).await.unwrap_err();
    assert!(matches!(error, repo::Error::Interrupted));
    assert_eq!(scene.names(), [""; 0]);
    assert_eq!(scene.source.revision, None);
}

#[tokio::test]
async fn what_takes_too_long_to_read_is_refused() {
    let mut scene = Scene::within(Budget::default().with(Limit::RevisionSeconds, 0)).await;
    let revision = scene.push(&[("a.yaml", &map("a"))]).await;
    let error = scene.advance(&revision).await.unwrap_err();
    assert!(matches!(error, repo::Error::OverBudget(over) if over.limit == Limit::RevisionSeconds));
}

#[test]
fn a_turn_of_reading_is_short_however_large_the_files_are() {
    let files = |sizes: &[usize]| {
        let file = |path: usize| Change {
            path: path.to_string(),
            kind: ChangeKind::Added,
            blob: "1".repeat(40).parse().unwrap(),
        };
        let files = (0..sizes.len()).map(file).collect();
        let batches = batches(files, sizes);
        let paths: Vec<Vec<String>> = batches
            .into_iter()
            .map(|batch| batch.into_iter().map(|file| file.path).collect())
            .collect();
        let flat: Vec<String> = paths.iter().flatten().cloned().collect();
        assert_eq!(
            flat,
            (0..sizes.len()).map(|path| path.to_string()).collect::<Vec<_>>()
        );
        paths.iter().map(Vec::len).collect::<Vec<_>>()
    };
    assert_eq!(files(&[]), Vec::<usize>::new());
    assert_eq!(files(&[10; 1100]), [512, 512, 76]);
    assert_eq!(files(&[4 << 20, 4 << 20, 1, 1]), [1, 1, 2]);
    assert_eq!(files(&[400_000, 400_000, 400_000, 10]), [2, 2]);
}

/// Several syncs of one repository, each with a folder of its own.
fn beside(scene: &Scene, names: &[&str]) -> Vec<Source> {
    let syncs: String = names
        .iter()
        .map(|name| format!("- {{name: {name}, path: {name}}}\n"))
        .collect();
    let text = format!("apiVersion: cutover.dev/v1alpha1\nkind: Config\nsyncs:\n{syncs}");
    let config = cutover_core::config::Config::parse(text.as_bytes()).unwrap();
    let common = Selection::common(&config);
    let source = |sync| Source::new(scene.source.repo.clone(), common.beside(sync));
    config.syncs.iter().map(source).collect()
}

#[tokio::test]
async fn a_revision_over_the_budget_is_refused_by_every_sync_or_by_none() {
    for (limit, most) in [
        (Limit::RevisionObjects, 3),
        (Limit::RevisionFiles, 2),
        (Limit::RevisionBytes, 4 * map("a").len()),
        (Limit::RevisionValues, 40),
    ] {
        let scene = Scene::within(Budget::default().with(limit, most)).await;
        let mut sources = beside(&scene, &["a", "b", "c"]);
        let good = scene
            .push(&[("a/x.yaml", &map("a")), ("b/x.yaml", &map("b"))])
            .await;
        for source in &mut sources {
            source.advance(&good, |_| ()).await.unwrap();
        }
        // The first would have had room for its part.
        let many: String = ["c", "d", "e", "f"].map(map).concat();
        let files = [
            ("a/x.yaml", map("other")),
            ("b/x.yaml", map("b")),
            ("c/x.yaml", many),
        ];
        let bad = scene
            .push(&files.each_ref().map(|(path, text)| (*path, text.as_str())))
            .await;
        for source in &mut sources {
            let error = source.advance(&bad, |_| ()).await.unwrap_err();
            assert!(
                matches!(error, repo::Error::OverBudget(over) if over.limit == limit),
                "{error}"
            );
            assert_eq!(source.revision.as_ref(), Some(&good));
            let told = source.first_problems();
            let hint = told[0].hint.as_ref().unwrap();
            assert!(hint.contains(&format!("--budget {limit}=")), "{hint}");
        }
        // What moves from one to another is never there twice.
        let moved = scene.push(&[("a/x.yaml", &[map("a"), map("b")].concat())]).await;
        for source in &mut sources {
            source.advance(&moved, |_| ()).await.unwrap();
        }
    }
}

/// What is not known is neither empty nor to be left as it is until somebody changes the file.
#[tokio::test]
async fn a_content_that_the_mirror_has_lost_is_fetched_again_before_anything_is_taken_in() {
    let budget = Budget::default().with(Limit::RevisionObjects, 3);
    for syncs in [&["a"][..], &["a", "b"]] {
        let scene = Scene::within(budget).await;
        let many: String = ["c", "d", "e", "f"].map(map).concat();
        let mut sources = beside(&scene, syncs);
        let good = scene.push(&[("a/x.yaml", &map("a"))]).await;
        for source in &mut sources {
            source.advance(&good, |_| ()).await.unwrap();
        }
        let other = map("other");
        let files = [("a/x.yaml", other.as_str()), ("a/y.yaml", &many)];
        let bad = scene.push(&files).await;
        scene.lose(&many);
        for source in &mut sources {
            let error = source.advance(&bad, |_| ()).await.unwrap_err();
            assert!(matches!(error, repo::Error::Damaged(_)), "{error}");
            assert_eq!(source.revision.as_ref(), Some(&good));
            assert_eq!(source.first_problems(), []);
        }
        scene.source.repo.fetch().await.unwrap();
        for source in &mut sources {
            let error = source.advance(&bad, |_| ()).await.unwrap_err();
            assert!(matches!(error, repo::Error::OverBudget(_)), "{error}");
        }
        let small = scene.push(&[("a/y.yaml", &other)]).await;
        scene.lose(&other);
        for source in &mut sources {
            source.advance(&small, |_| ()).await.unwrap_err();
        }
        scene.source.repo.fetch().await.unwrap();
        for source in &mut sources {
            source.advance(&small, |_| ()).await.unwrap();
        }
    }
}

/// A file may have thousands of objects that the server refuses: it is parsed once for all of them.
#[tokio::test]
async fn fields_that_are_refused_are_found_in_one_look_at_their_file() {
    const OBJECTS: usize = 2_000;
    let mut scene = Scene::within(Budget::default()).await;
    let object = |number: usize| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m{number}}}\ndata:\n  a: b\n  c: d\n---\n"
        )
    };
    let file: String = (0..OBJECTS).map(object).collect();
    let revision = scene
        .push(&[("a.yaml", &file), ("copy/a.yaml", "# nothing\n")])
        .await;
    scene.advance(&revision).await.unwrap();
    let (mut objects, mut outcomes) = (ObjectMap::default(), BTreeMap::new());
    for entry in scene.source.set.iter() {
        let failure = cutover_cluster::Failure {
            message: "refused".to_owned(),
            hint: None,
            at: entry.source(),
            field: Some("/data/c".to_owned()),
            passing: false,
            fixed: Vec::new(),
        };
        outcomes.insert(entry.key.clone(), Outcome::Failed(failure));
        objects.replace(Arc::clone(entry));
    }
    assert_eq!(outcomes.len(), OBJECTS);
    let begun = Instant::now();
    scene.source.locate(&objects, &mut outcomes).await;
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let failed = |name: &str| match outcomes.iter().find(|(key, _)| key.name == name) {
        Some((_, Outcome::Failed(failure))) => failure.at.line,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (failed("m0"), failed("m1"), failed("m1999")),
        (6, 13, 1_999 * 7 + 6)
    );
}
