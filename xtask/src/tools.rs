//! The programs the local cluster runs, built with Go from the modules pinned under `tools/`.
//!
//! In: the repository's `tools/<name>/go.mod`, which is the only place a version is written. Out: paths of built
//! programs under `target/tools/<name>-<version>/`. A build is reused until `go.mod`, `go.sum` or a build flag
//! changes, and two processes never build the same tool at once. Go is needed only while something has to be built.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub mod go;

use go::Go;

/// Where each program stands.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the fields are the programs' own names
pub struct Programs {
    pub etcd: PathBuf,
    pub kube_apiserver: PathBuf,
    pub kube_controller_manager: PathBuf,
    pub kube_scheduler: PathBuf,
    pub kubectl: PathBuf,
    pub kwok: PathBuf,
    /// The kubelet behavior kwok plays, one file of Stage objects.
    pub kwok_stages: PathBuf,
    pub helm: PathBuf,
    pub prometheus: PathBuf,
}

/// One Go module under `tools/` and the programs built from it.
#[derive(Debug)]
pub struct Tool {
    /// The folder under `tools/`.
    pub name: &'static str,
    /// The module whose version is the tool's version.
    pub module: &'static str,
    /// Package path and the name its program gets.
    pub programs: &'static [(&'static str, &'static str)],
    /// Go build tags, comma-separated.
    pub tags: &'static str,
    /// Variables set by the linker, with `{version}`, `{minor}` and `{bare}` (no leading v) to be filled in.
    pub link_variables: &'static [(&'static str, &'static str)],
    /// Files copied out of the module and joined into one: the result's name, and folder or file paths inside.
    pub joined_files: Option<(&'static str, &'static [&'static str])>,
}

/// API server, controller manager (it holds the real HPA), scheduler and kubectl.
/// Without the link variables they call themselves v0.0.0-master, which clients compare with.
pub const KUBERNETES: Tool = Tool {
    name: "kubernetes",
    module: "k8s.io/kubernetes",
    programs: &[
        ("k8s.io/kubernetes/cmd/kube-apiserver", "kube-apiserver"),
        ("k8s.io/kubernetes/cmd/kube-controller-manager", "kube-controller-manager"),
        ("k8s.io/kubernetes/cmd/kube-scheduler", "kube-scheduler"),
        ("k8s.io/kubernetes/cmd/kubectl", "kubectl"),
    ],
    tags: "",
    link_variables: &[
        ("k8s.io/component-base/version.gitVersion", "{version}"),
        ("k8s.io/component-base/version.gitMajor", "1"),
        ("k8s.io/component-base/version.gitMinor", "{minor}"),
        ("k8s.io/client-go/pkg/version.gitVersion", "{version}"),
    ],
    joined_files: None,
};

/// The store behind the API server.
pub const ETCD: Tool = Tool {
    name: "etcd",
    module: "go.etcd.io/etcd/server/v3",
    programs: &[("go.etcd.io/etcd/server/v3", "etcd")],
    tags: "",
    link_variables: &[],
    joined_files: None,
};

/// Plays the kubelets. It stops at once without stages, which its module ships.
pub const KWOK: Tool = Tool {
    name: "kwok",
    module: "sigs.k8s.io/kwok",
    programs: &[("sigs.k8s.io/kwok/cmd/kwok", "kwok")],
    tags: "",
    link_variables: &[],
    joined_files: Some((
        "stages.yaml",
        &[
            "kustomize/stage/node/fast/node-initialize.yaml",
            "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
            "kustomize/stage/pod/general/pod-complete.yaml",
            "kustomize/stage/pod/general/pod-create.yaml",
            "kustomize/stage/pod/general/pod-delete.yaml",
            "kustomize/stage/pod/general/pod-init-container-completed.yaml",
            "kustomize/stage/pod/general/pod-init-container-running.yaml",
            "kustomize/stage/pod/general/pod-ready.yaml",
        ],
    )),
};

/// Installs the chart.
pub const HELM: Tool = Tool {
    name: "helm",
    module: "helm.sh/helm/v4",
    programs: &[("helm.sh/helm/v4/cmd/helm", "helm")],
    tags: "",
    link_variables: &[("helm.sh/helm/v4/internal/version.version", "{version}")],
    joined_files: None,
};

/// Prometheus without service discovery of clouds, which is most of its code, and without its web pages.
pub const PROMETHEUS: Tool = Tool {
    name: "prometheus",
    module: "github.com/prometheus/prometheus",
    programs: &[("github.com/prometheus/prometheus/cmd/prometheus", "prometheus")],
    tags: "netgo,remove_all_sd",
    link_variables: &[("github.com/prometheus/common/version.Version", "{bare}")],
    joined_files: None,
};

/// The repository this crate was compiled in.
pub fn repository_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the repository")
}

/// Builds whatever of the local cluster's programs is missing and says where all of them stand.
/// Shows its progress on standard error; silent when there is nothing to build.
///
/// # Errors
/// When Go is missing or too old, when a build fails (with the end of its output), or on file errors.
pub fn build_all(repository: &Path) -> Result<Programs> {
    let kubernetes = build(repository, &KUBERNETES)?;
    let etcd = build(repository, &ETCD)?;
    let kwok = build(repository, &KWOK)?;
    let prometheus = build(repository, &PROMETHEUS)?;
    let helm = build(repository, &HELM)?;
    Ok(Programs {
        etcd: etcd.join("etcd"),
        kube_apiserver: kubernetes.join("kube-apiserver"),
        kube_controller_manager: kubernetes.join("kube-controller-manager"),
        kube_scheduler: kubernetes.join("kube-scheduler"),
        kubectl: kubernetes.join("kubectl"),
        kwok: kwok.join("kwok"),
        kwok_stages: kwok.join("stages.yaml"),
        helm: helm.join("helm"),
        prometheus: prometheus.join("prometheus"),
    })
}

/// Builds one tool unless it is already built, and answers the folder its programs stand in.
///
/// # Errors
/// As [`build_all`].
pub fn build(repository: &Path, tool: &Tool) -> Result<PathBuf> {
    let module_dir = repository.join("tools").join(tool.name);
    let go_mod = read(&module_dir.join("go.mod"))?;
    let version = pinned_version(&go_mod, tool.module)
        .with_context(|| format!("{}: no version of {}", module_dir.join("go.mod").display(), tool.module))?;
    let link_flags = link_flags(tool, version);
    let stamp = stamp(&go_mod, &read(&module_dir.join("go.sum"))?, tool, &link_flags);
    let built_dir = repository.join("target/tools").join(format!("{}-{version}", tool.name));
    if is_built(&built_dir, tool, &stamp) {
        return Ok(built_dir);
    }

    let _lock = lock_tool(repository, tool)?;
    if is_built(&built_dir, tool, &stamp) {
        return Ok(built_dir); // by the process that held the lock
    }
    let go = Go::find()?;
    fs::create_dir_all(&built_dir)?;
    go.build(&module_dir, tool, version, &link_flags, &built_dir)?;
    if let Some((name, parts)) = tool.joined_files {
        let module_source = go.module_source(&module_dir, tool.module)?;
        fs::write(built_dir.join(name), join_files(&module_source, parts)?)?;
    }
    fs::write(built_dir.join(STAMP), &stamp).context("noting what was built")?;
    Ok(built_dir)
}

/// The file that says from what the programs beside it were built.
const STAMP: &str = "built-from";

fn is_built(built_dir: &Path, tool: &Tool, stamp: &str) -> bool {
    let all_there = tool.programs.iter().all(|(_, program)| built_dir.join(program).exists());
    all_there && fs::read_to_string(built_dir.join(STAMP)).is_ok_and(|found| found == stamp)
}

/// Everything that decides what the build produces, but for Go itself: a new patch release of Go is no reason to
/// build for a quarter of an hour.
fn stamp(go_mod: &str, go_sum: &str, tool: &Tool, link_flags: &str) -> String {
    let Tool { name: _, module: _, programs, tags, link_variables: _, joined_files } = tool;
    format!("{programs:?}\n{tags}\n{link_flags}\n{joined_files:?}\n{go_mod}\n{go_sum}")
}

/// The version that `go.mod` requires of a module.
fn pinned_version<'a>(go_mod: &'a str, module: &str) -> Option<&'a str> {
    go_mod.lines().find_map(|line| {
        let mut words = line.trim().trim_start_matches("require ").split_whitespace();
        (words.next() == Some(module)).then(|| words.next())?
    })
}

fn link_flags(tool: &Tool, version: &str) -> String {
    let minor = version.split('.').nth(1).unwrap_or_default();
    let bare = version.trim_start_matches('v');
    // Without symbols and debug data: half the size, a shorter link.
    let mut flags = String::from("-s -w");
    for (variable, value) in tool.link_variables {
        let value = value.replace("{version}", version).replace("{minor}", minor).replace("{bare}", bare);
        flags.push_str(&format!(" -X {variable}={value}"));
    }
    flags
}

/// Waits for another process that is building the same tool. The lock goes with the process that holds it.
fn lock_tool(repository: &Path, tool: &Tool) -> Result<File> {
    let folder = repository.join("target/tools");
    fs::create_dir_all(&folder)?;
    let lock = File::create(folder.join(format!("{}.lock", tool.name)))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            eprintln!("waiting for another process that is building {}", tool.name);
            lock.lock()?;
        }
        Err(TryLockError::Error(error)) => return Err(error).context("locking the tools folder"),
    }
    Ok(lock)
}

fn join_files(folder: &Path, parts: &[&str]) -> Result<String> {
    let mut joined = String::new();
    for part in parts {
        joined.push_str(&read(&folder.join(part))?);
        joined.push_str("\n---\n");
    }
    Ok(joined)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_comes_from_the_module_file() {
        let go_mod =
            "require (\n\tk8s.io/kubernetes v1.36.3 // indirect\n\tk8s.io/kubernetes-extra v9.0.0\n)\n";
        assert_eq!(pinned_version(go_mod, "k8s.io/kubernetes"), Some("v1.36.3"));
        assert_eq!(pinned_version("require k8s.io/api v0.36.3\n", "k8s.io/api"), Some("v0.36.3"));
        assert_eq!(pinned_version(go_mod, "k8s.io/kube"), None);
    }

    #[test]
    fn every_tool_has_its_module_pinned() {
        for tool in [KUBERNETES, ETCD, KWOK, HELM, PROMETHEUS] {
            let go_mod = read(&repository_root().join("tools").join(tool.name).join("go.mod")).unwrap();
            assert!(pinned_version(&go_mod, tool.module).is_some(), "{}", tool.name);
            for (package, _) in tool.programs {
                assert!(go_mod.contains(package), "{package} is no tool of {}", tool.name);
            }
        }
    }

    #[test]
    fn the_server_is_told_its_version() {
        let flags = link_flags(&KUBERNETES, "v1.36.3");
        assert!(flags.contains("-X k8s.io/component-base/version.gitVersion=v1.36.3"));
        assert!(flags.contains("version.gitMinor=36"));
    }

    #[test]
    fn a_changed_flag_is_another_build() {
        let with = |flags| stamp("go.mod", "go.sum", &ETCD, flags);
        assert_ne!(with("-s"), with("-s -w"));
    }
}
