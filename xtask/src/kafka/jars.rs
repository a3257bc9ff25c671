//! Kafka's jars, fetched by Maven once a machine into the cache folder.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::tools::Tool;
use crate::workspace;

const VERSION: &str = "4.4.0";

/// The binding is not among Kafka's own dependencies; without it a node says nothing, not even why it failed.
const POM: &str = r#"<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>dev.tidegate</groupId>
  <artifactId>kafka</artifactId>
  <version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>@VERSION@</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>@VERSION@</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.5</version></dependency>
  </dependencies>
</project>
"#;

/// Folder of the jars; fetches them where they are not there yet. Checks Java too: nothing can be done with the jars otherwise.
pub(super) fn fetch() -> Result<PathBuf> {
    Tool::Java.check()?;
    let folder = workspace::cache()?.join(format!("kafka-{VERSION}"));
    let libraries = folder.join("libs");
    let complete = folder.join("complete");
    if complete.is_file() {
        return Ok(libraries);
    }
    Tool::Maven.check()?;
    // Two tasks may come here at once: each fetches into a folder of its own, and the first rename wins.
    let partial = folder.with_extension(format!("0.partial-{}", std::process::id()));
    fs::create_dir_all(&partial).with_context(|| format!("cannot make {}", partial.display()))?;
    fs::write(partial.join("pom.xml"), POM.replace("@VERSION@", VERSION)).context("cannot write pom.xml")?;
    let output = Command::new("mvn")
        .args(["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs"])
        .current_dir(&partial)
        .stdin(Stdio::null())
        .output()
        .context("cannot run mvn")?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let line = text.lines().find(|line| line.contains("ERROR")).unwrap_or("no message").to_owned();
        fs::remove_dir_all(&partial).with_context(|| format!("cannot remove {}", partial.display()))?;
        bail!("Maven cannot fetch Kafka {VERSION}: {line}");
    }
    fs::write(partial.join("complete"), "").context("cannot write the marker")?;
    if fs::rename(&partial, &folder).is_err() {
        fs::remove_dir_all(&partial).with_context(|| format!("cannot remove {}", partial.display()))?;
        if !complete.is_file() {
            bail!("{} is in the way and is not complete: remove it", folder.display());
        }
    }
    Ok(libraries)
}
