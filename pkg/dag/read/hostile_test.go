package read_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// repeat returns a reader of head followed by text, repeated a number of times.
func repeat(head, text string, times int) io.Reader {
	many := max(1, min(times, (64<<10)/len(text)))
	chunk := strings.Repeat(text, many)
	parts := []io.Reader{strings.NewReader(head)}
	for ; times > 0; times -= many {
		parts = append(parts, strings.NewReader(chunk[:len(text)*min(many, times)]))
	}
	return io.MultiReader(parts...)
}

// refuse reads a file that must be rejected with little time and memory, and returns the error.
func refuse(t *testing.T, name string, r io.Reader) error {
	t.Helper()
	type result struct {
		job *dag.Job
		err error
	}
	done := make(chan result, 1)
	go func() {
		j, err := read.Job(name, r)
		done <- result{j, err}
	}()
	select {
	case got := <-done:
		if got.err == nil || got.job != nil {
			t.Fatalf("%s was read", name)
		}
		var e *dag.Error
		if !errors.As(got.err, &e) || e.File != name {
			t.Errorf("%v is not an *Error that names the file", got.err)
		}
		if text := got.err.Error(); len(text) > 1000 {
			t.Errorf("a message of %d bytes: %s…", len(text), text[:200])
		}
		return got.err
	case <-time.After(time.Minute): // only a bug can reach this
		t.Fatalf("%s takes too long", name)
		return nil
	}
}

func TestFilesBeyondLimitsAreRejected(t *testing.T) {
	const yamlHead = "apiVersion: tradewind/v1\ntasks:\n"
	big := strings.Repeat("x", jobtext.MaxScriptBytes+1)
	for name, c := range map[string]struct {
		r    io.Reader
		want string
	}{
		"100MB.yaml":    {repeat("", "# a comment that goes on and on\n", 100e6/32), "the file has more than 64 MiB"},
		"marks.yaml":    {repeat(yamlHead, "  - \n", 3e6), "marks that begin values, more than 2500000"},
		"flow.yaml":     {repeat(yamlHead+"  [", "a,", 3e6), "marks that begin values"},
		"script.yaml":   {strings.NewReader(yamlHead + "  a: {run: " + big + "}\n"), "tasks.a.run: the script has 262145 bytes, more than 262144"},
		"env.yaml":      {strings.NewReader(yamlHead + "  a: {run: x, env: {A: " + big + "}}\n"), "tasks.a.env: has 262146 bytes"},
		"uri.yaml":      {strings.NewReader(yamlHead + "  a: {run: x, inputs: [" + big + "]}\n"), "tasks.a.inputs[0]: has 262145 bytes, more than 4096"},
		"name.yaml":     {strings.NewReader(yamlHead + "  " + big[:500] + ": {run: x}\n"), "is not a name"},
		"choices.yaml":  {repeat(yamlHead+"  a:\n    run: x\n    resources:\n      anyOf:\n", "        - {cpus: 1}\n", 101), "tasks.a.resources.anyOf[100]: more than 100 alternatives"},
		"inputs.yaml":   {repeat(yamlHead+"  a:\n    recorded: 1s\n    inputs:\n", "      - x\n", 10001), "tasks.a.inputs[10000]: more than 10000 inputs"},
		"tasks.json":    {repeat(`{"schemaVersion":"1.5","workflow":{"tasks":[{"id":"a"}`, `,{"id":"a"}`, 10), "there are two tasks"},
		"depth.json":    {repeat(`{"x":`, "[", 1e5), "is nested more than 64 deep"},
		"depth.xml":     {repeat("<adag>", "<a>", 1e5), "is nested more than 64 deep"},
		"depth.yaml":    {repeat("a: ", "[", 1e5), "exceeded max depth"},
		"indents.yaml":  {repeat("", "- ", 1e5), "exceeded max depth"},
		"string.json":   {repeat(`{"name":"`, "x", 1e6), "ends too early"},
		"attribute.xml": {repeat(`<adag name="`, "x", 1e6), "ends too early"},
		"many.xml":      {strings.NewReader("<adag " + attributes(200) + "/>"), "has more than 100 attributes"},
		"profile.xml":   {strings.NewReader(`<adag><job id="a"><profile namespace="env" key="A">` + big + `</profile></job></adag>`), "has more than 4096 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := refuse(t, name, c.r); !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwant %s", err, c.want)
			}
		})
	}
}

func attributes(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a%d='' ", i)
	}
	return b.String()
}

// A gzip file of a megabyte contains a gigabyte of zeros. It must be rejected.
func TestGzipBombIsRejected(t *testing.T) {
	part := gzipped(t, make([]byte, 1<<20)) // concatenated gzip files are one file
	err := refuse(t, "bomb.gz", repeat("", string(part), 1024))
	if !errors.Is(err, dag.ErrLimit) || !strings.Contains(err.Error(), "the unpacked file has more than 64 MiB") {
		t.Error(err)
	}
}

// A YAML file has nine aliases of nine aliases of nine …, as a value of the wrong kind and of the right kind. It must
// be rejected.
func TestYAMLBombsAreRejected(t *testing.T) {
	var laughs strings.Builder
	laughs.WriteString("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n")
	for i := range 12 {
		fmt.Fprintf(&laughs, "a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 8), i)
	}
	var uses strings.Builder
	uses.WriteString("apiVersion: tradewind/v1\ntasks:\n  t: &t\n    run: x\n    outputs: &o\n")
	for i := range 2000 {
		fmt.Fprintf(&uses, "      - {name: o%d}\n", i)
	}
	for i := range 2000 {
		fmt.Fprintf(&uses, "  t%d: *t\n", i)
	}
	for name, c := range map[string]struct{ text, want string }{
		"laughs.yaml":   {"apiVersion: tradewind/v1\n" + laughs.String(), "unknown field"},
		"sky.yaml":      {laughs.String() + "run: x\n", "unknown field"},
		"uses.yaml":     {uses.String(), "aliases expand to too many values"},
		"itself.yaml":   {"apiVersion: tradewind/v1\ntasks: &t {a: *t}\n", "unknown field"},
		"within.yaml":   {"apiVersion: tradewind/v1\ntasks: {a: {run: x, resources: &r {anyOf: [*r]}}}\n", "unknown field"},
		"merge.yaml":    {"apiVersion: tradewind/v1\ntasks: {a: &a {<<: *a, run: x}}\n", "only mappings can be merged"},
		"expand.yaml":   {"run: x\nenvs: {A: " + strings.Repeat("x", 60000) + "}\nfile_mounts: {/x: " + strings.Repeat("$A", 60000) + "}\n", "more than 4096"},
		"mergings.yaml": {"apiVersion: tradewind/v1\nbase: &b {run: x}\ntasks: {a: {<<: [" + strings.Repeat("*b,", 100000) + "]}}\n", "unknown field"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := refuse(t, name, strings.NewReader(c.text)); !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwant %s", err, c.want)
			}
		})
	}
}

// Each variable contains the previous one twice. The file must be rejected.
func TestVariablesThatDoubleAreRejected(t *testing.T) {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n" +
		"  - {name: c, image: b, command: [echo], env: [{name: A0, value: xxxxxxxxxx}")
	for i := range 60 {
		fmt.Fprintf(&b, ", {name: A%d, value: $(A%d)$(A%d)}", i+1, i, i)
	}
	err := refuse(t, "p.yaml", strings.NewReader(b.String()+"]}\n"))
	if !errors.Is(err, dag.ErrLimit) || !strings.Contains(err.Error(), "bytes with the variables in it, more than 65536") {
		t.Error(err)
	}
}

func TestArgumentsThatRepeatVariablesAreRejected(t *testing.T) {
	text := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n" +
		"  - {name: c, image: b, env: [{name: A, value: " + strings.Repeat("x", 60_000) + "}], command: [" +
		strings.Repeat(strings.Repeat("$(A)", 1000)+",", 1000) + "]}\n"
	err := refuse(t, "p.yaml", strings.NewReader(text))
	if !errors.Is(err, dag.ErrLimit) || !strings.Contains(err.Error(), "the script has ") {
		t.Error(err)
	}
}

// A file has fifty thousand services with a hundred replicas each. The tasks must be counted while the file is read.
func TestTasksOfReplicasAreCountedWhileReading(t *testing.T) {
	sky := repeat("", "---\nrun: x\nresources: {ports: 80}\nservice: {readiness_probe: /, replicas: 100}\n", 50_000)
	if err := refuse(t, "sky.yaml", sky); !errors.Is(err, dag.ErrLimit) || !strings.Contains(err.Error(), "more than 100000") {
		t.Error(err)
	}
	var b strings.Builder
	b.WriteString("apiVersion: tradewind/v1\ntasks:\n")
	for i := range 50_000 {
		fmt.Fprintf(&b, "  t%d: {run: x, service: {port: 80, replicas: 100, readiness: {path: /}}}\n", i)
	}
	err := refuse(t, "native.yaml", strings.NewReader(b.String()))
	if !errors.Is(err, dag.ErrLimit) || !strings.Contains(err.Error(), "more than 100000") {
		t.Error(err)
	}
}

func TestXMLEntitiesAreRejected(t *testing.T) {
	for name, text := range map[string]string{
		"laughs":    `<!DOCTYPE l [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;">]><adag><job id="&b;"/></adag>`,
		"external":  `<!DOCTYPE l SYSTEM "file:///etc/passwd"><adag><job id="a"/></adag>`,
		"xxe":       `<!DOCTYPE l [<!ENTITY x SYSTEM "file:///etc/passwd">]><adag name="&x;"><job id="a"/></adag>`,
		"undefined": `<adag name="&x;"><job id="a"/></adag>`,
	} {
		if err := refuse(t, name, strings.NewReader(text)); !strings.Contains(err.Error(), "DOCTYPE") &&
			!strings.Contains(err.Error(), "entity") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every pair of a writer and a reader of a file is a dependency, so their number grows quadratically. It must be
// limited.
func TestDependenciesOfFilesAreLimited(t *testing.T) {
	var b strings.Builder
	b.WriteString("<adag>")
	for i := range 3000 {
		fmt.Fprintf(&b, `<job id="w%d"><uses name="x" link="output"/></job>`, i)
	}
	for i := range 3000 {
		fmt.Fprintf(&b, `<job id="r%d"><uses name="x" link="input"/></job>`, i)
	}
	b.WriteString("</adag>")
	if err := refuse(t, "x.xml", strings.NewReader(b.String())); !errors.Is(err, dag.ErrLimit) ||
		!strings.Contains(err.Error(), "more than 1000000 dependencies") {
		t.Error(err)
	}
}

func TestTooManyTasksAreRejected(t *testing.T) {
	job := func(n int) io.Reader { // short IDs, all different
		var b strings.Builder
		b.WriteString("<adag>")
		for i := range n {
			b.WriteString(`<job id="` + strconv.Itoa(i) + `"/>`)
		}
		return strings.NewReader(b.String() + "</adag>")
	}
	if err := refuse(t, "more.xml", job(jobtext.MaxTasks+1)); !errors.Is(err, dag.ErrLimit) ||
		!strings.Contains(err.Error(), "more than 100000 tasks") {
		t.Error(err)
	}
}

// The memory of a job must be only a small multiple of the size of its file.
func TestJobMemoryIsBoundedByFileSize(t *testing.T) {
	data := wideDAX(10_000, 3)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	j, err := read.Job("wide.xml", bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 20*int64(len(data)) {
		t.Errorf("the job uses %d MB, the file has %d MB", kept>>20, len(data)>>20)
	}
	runtime.KeepAlive(j)
}

// wideDAX returns a workflow of n tasks. Each task reads files of up to parents earlier tasks.
func wideDAX(n, parents int) []byte {
	var b bytes.Buffer
	b.WriteString("<adag>\n")
	for i := range n {
		fmt.Fprintf(&b, `<job id="ID%06d" runtime="1.5"><uses file="f%d" link="output" size="1000"/>`, i, i)
		for p := range min(parents, i) {
			fmt.Fprintf(&b, `<uses file="f%d" link="input"/>`, (i*7+p)%i)
		}
		b.WriteString("</job>\n")
	}
	b.WriteString("</adag>\n")
	return b.Bytes()
}
