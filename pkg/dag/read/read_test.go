package read_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// publicFiles returns the names of published workflows of all formats, if they are available.
func publicFiles(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(publicWorkflows, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("../shared/data/workflows is missing")
	}
	return files
}

const publicWorkflows = "../../../../shared/data/workflows"

func TestReadPublicWorkflows(t *testing.T) {
	forms := map[string]dag.Format{"dax": dag.DAX, "wfformat": dag.WfFormat, "skypilot": dag.SkyPilot}
	seen := map[dag.Format]int{}
	for _, file := range publicFiles(t) {
		form := forms[filepath.Base(filepath.Dir(file))]
		j, err := read.File(file)
		if err != nil {
			t.Error(err)
			continue
		}
		seen[form]++
		if j.Format != form {
			t.Errorf("%s was read as %s", file, j.Format)
		}
		if form == dag.SkyPilot {
			continue
		}
		for i := range j.Tasks {
			if task := &j.Tasks[i]; !task.StandIn() || task.Time.Default != task.Recorded {
				t.Errorf("%s: task %s: recorded %v, time %v", file, task.Name, task.Recorded, task.Time.Default)
			}
		}
	}
	if len(seen) != 3 {
		t.Errorf("files read by format: %v", seen)
	}
}

// The published workflows state every dependency. So their files must add no dependency, even if a file has several
// writers or different sizes.
func TestDependenciesOfPublicWorkflows(t *testing.T) {
	for file, want := range map[string]struct{ tasks, edges int }{
		// the file states more dependencies than its data files imply
		"dax/CyberShake_1000.xml.gz":                                       {1000, 1988},
		"dax/Inspiral_1000.xml.gz":                                         {1000, 1233}, // three files have several writers
		"dax/Montage_1000.xml.gz":                                          {1000, 2485},
		"dax/Sipht_100.xml.gz":                                             {97, 109}, // 51 files have several writers
		"wfformat/makeflow__bwa__bwa-chameleon-small-001.json.gz":          {104, 400},
		"wfformat/pegasus__montage__montage-chameleon-dss-05d-001.json.gz": {58, 114},
		"skypilot/pipeline_gcp.yaml":                                       {4, 3},
	} {
		j, err := read.File(filepath.Join(publicWorkflows, file))
		if errors.Is(err, fs.ErrNotExist) {
			t.Skip("../shared/data/workflows is missing")
		}
		if err != nil {
			t.Error(err)
			continue
		}
		if len(j.Tasks) != want.tasks || len(j.Edges) != want.edges {
			t.Errorf("%s: %d tasks and %d edges, want %+v", file, len(j.Tasks), len(j.Edges), want)
		}
	}
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const minimal = "apiVersion: tradewind/v1\nname: m\ntasks:\n  a:\n    run: |\n      echo one\n      echo two\n"

func TestReadAcceptsEncodings(t *testing.T) {
	want, err := read.Job("m.yaml", strings.NewReader(minimal))
	if err != nil {
		t.Fatal(err)
	}
	asJSON := `{"apiVersion":"tradewind/v1","name":"m","tasks":{"a":{"run":"echo one\necho two\n"}}}`
	for what, data := range map[string][]byte{
		"gzip":              gzipped(t, []byte(minimal)),
		"byte order mark":   []byte("\ufeff" + minimal),
		"carriage returns":  []byte(strings.ReplaceAll(minimal, "\n", "\r\n")),
		"all of them":       gzipped(t, []byte("\ufeff"+strings.ReplaceAll(minimal, "\n", "\r\n"))),
		"JSON":              []byte(asJSON),
		"document markers":  []byte("%YAML 1.2\n---\n" + minimal + "...\n"),
		"an empty document": []byte("---\n" + minimal + "---\n"),
	} {
		for _, name := range []string{"m.yaml", "m.json", "m.txt", "m"} {
			got, err := read.Job(name, bytes.NewReader(data))
			if err != nil {
				t.Errorf("%s in %s: %v", what, name, err)
				continue
			}
			if got.Tasks[0].Run != want.Tasks[0].Run || got.Name != "m" || got.Format != dag.Native {
				t.Errorf("%s in %s: %+v", what, name, got)
			}
		}
	}
}

func TestFormatIsDetectedByContent(t *testing.T) {
	for _, c := range []struct {
		name, content string
		want          dag.Format
	}{
		{"w.yaml", `{"name":"w","schemaVersion":"1.5","workflow":{"specification":{"tasks":[{"id":"a"}]}}}`, dag.WfFormat},
		{"w", `{"author":{"schemaVersion":0,"tasks":[]},"workflow":{"tasks":[{"id":"a"}]},"schemaVersion":"1.4"}`, dag.WfFormat},
		{"w.json", `<adag><job id="a"/></adag>`, dag.DAX},
		{"w.xml", "run: echo\n", dag.SkyPilot},
		{"w.json", `{"run":"echo","name":"x"}`, ""}, // the extension makes it WfFormat
		{"w.yaml", `{"run":"echo","name":"x"}`, dag.SkyPilot},
		{"w", "name: chain\n---\nrun: a\n---\nrun: b\n", dag.SkyPilot},
		{"w", minimal, dag.Native},
	} {
		j, err := read.Job(c.name, strings.NewReader(c.content))
		switch {
		case c.want == "" && err == nil:
			t.Errorf("%s: %s was read", c.name, c.content)
		case c.want != "" && err != nil:
			t.Errorf("%v: %s", err, c.content)
		case c.want != "" && j.Format != c.want:
			t.Errorf("%s is %s, want %s", c.content, j.Format, c.want)
		}
	}
}

func TestJobIsNamedAfterItsFile(t *testing.T) {
	const content = "apiVersion: tradewind/v1\ntasks: {a: {run: x}}\n"
	for name, want := range map[string]string{
		"dir/nightly.yaml": "nightly", "nightly.yaml.gz": "nightly", "my job.yml": "my-job", ".yaml": "yaml", "...": "job", "": "job",
		"v1.2.yaml": "v1.2", strings.Repeat("x", 300) + ".yaml": strings.Repeat("x", 128),
	} {
		j, err := read.Job(name, strings.NewReader(content))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if j.Name != want {
			t.Errorf("%q: name %q, want %q", name, j.Name, want)
		}
	}
}

func TestUnreadableFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := read.File(dir); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("a directory: %v", err)
	}
	missing := filepath.Join(dir, "none.yaml")
	_, err := read.File(missing)
	if !errors.Is(err, fs.ErrNotExist) || err.Error() != missing+": cannot be read: no such file or directory" {
		t.Errorf("a missing file: %v", err)
	}
	for what, c := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":            {nil, "x: the file is empty"},
		"white space":        {[]byte(" \n\t\n"), "x: the file is empty"},
		"comments":           {[]byte("# none\n"), "x: the file is empty"},
		"truncated gzip":     {gzipped(t, []byte(minimal))[:40], "x: cannot be read: unexpected EOF"},
		"a gzip header only": {[]byte{0x1f, 0x8b}, "x: cannot be read: gzip: unexpected EOF"},
		"gzip in gzip":       {gzipped(t, gzipped(t, []byte(minimal))), "x:1:2: the text is not UTF-8 (save it as UTF-8)"},
		"UTF-16":             {[]byte("\xff\xfea\x00"), "x:1: the text is UTF-16 (save it as UTF-8)"},
		"latin 1":            {[]byte("name: x\nrun: caf\xe9\n"), "x:2:9: the text is not UTF-8 (save it as UTF-8)"},
		"a binary":           {[]byte("\x7fELF\x02\x01\x01\x00"), ""},
	} {
		_, err := read.Job("x", bytes.NewReader(c.data))
		if err == nil || c.want != "" && err.Error() != c.want {
			t.Errorf("%s: %v, want %s", what, err, c.want)
		}
	}
}

func TestTimesOfAPublicWorkflow(t *testing.T) {
	publicFiles(t)
	j, err := read.File(
		filepath.Join(publicWorkflows, "wfformat", "helloworld__helloworld-chain-5-chameleon.json.gz"),
	)
	if err != nil {
		t.Fatal(err)
	}
	length, path, err := j.CriticalPath(func(i int) time.Duration { return j.Tasks[i].Recorded })
	if err != nil || length != j.TotalRecorded() || len(path) != 5 || length.Round(time.Second) != 501*time.Second {
		t.Errorf(
			"a chain of 5 takes %v, its critical path %v with %d tasks, %v",
			j.TotalRecorded(),
			length,
			len(path),
			err,
		)
	}
}

// A file in an unknown format must get another error than a faulty file in a known format.
func TestUnknownFormats(t *testing.T) {
	for text, want := range map[string]string{
		"#!/bin/sh\necho hi": "x.yaml:2:1: is text, not a job (a Slurm batch script has a line that begins with #SBATCH before its first command)",
		"just words":         "x.yaml:1:1: is text, not a job (a job is a mapping: apiVersion, name, tasks)",
		"- a\n- b\n":         "x.yaml:1:1: is a list, not a job (a job is a mapping: apiVersion, name, tasks)",
		"services: {a: 1}": "x.yaml:1:1: is in none of the formats that Tradewind reads (begin a job with apiVersion: tradewind/v1; " +
			"SkyPilot YAML, WfFormat JSON, Pegasus DAX and Kubernetes manifests are read too)",
	} {
		if _, err := read.Job("x.yaml", strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
	}
}

// harmless lists the warnings that SkyPilot's published examples may get. No field that changes a job's result is
// dropped.
var harmless = []string{
	"job_recovery: is ignored: the plan decides where to move",
	"spot_recovery: is ignored: the plan decides where to move",
	"runtime_version: is ignored: the TPU has the default runtime",
	"gcp_queued_resource: is ignored: the broker waits for capacity",
	"does not name the store of the bucket, so it is s3",
	"is copied to $TRADEWIND_INPUTS before the task starts",
	// submitting it is refused, because the variable has no value
	"uses $SECRETE_BUCKET_NAME, a secret, which cannot be part of a name: use envs",
}

func TestPublicSkyPilotFilesDropNothing(t *testing.T) {
	files := 0
	for _, file := range publicFiles(t) {
		if filepath.Base(filepath.Dir(file)) != "skypilot" {
			continue
		}
		files++
		j, err := read.File(file)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, w := range j.Warnings {
			if !slices.ContainsFunc(harmless, func(ending string) bool { return strings.HasSuffix(w, ending) }) {
				t.Errorf("%s", w)
			}
		}
	}
	if files != 34 {
		t.Errorf("%d files", files)
	}
}
