package skypilot

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// TestSizesAreBinary checks that all units of sizes are powers of 1024.
func TestSizesAreBinary(t *testing.T) {
	for text, want := range map[string]dag.GiB{
		"2": 2, "2GB": 2, "2GI": 2, "2048MB": 2, "2048Mi": 2, "2097152KB": 2, "2097152KI": 2, "1TB": 1024, "1TI": 1024,
		"1PB": 1 << 20, "1PI": 1 << 20, "1GB": 1, "1.9GB": 1,
	} {
		j := readSky(t, "run: x\nresources: {disk_size: "+text+"}\n")
		if got := j.Tasks[0].Resources[0].DiskGiB; got != want {
			t.Errorf("%s are %v GiB, want %v", text, got, want)
		}
	}
}

// TestLimits checks that values at a limit are accepted, and those just beyond are rejected.
func TestLimits(t *testing.T) {
	probe := func(seconds string) string {
		return "run: x\nresources: {ports: 80}\n" +
			"service: {readiness_probe: {path: /, initial_delay_seconds: " + seconds + "}}\n"
	}
	images := func(n int) string {
		text := "run: x\nresources:\n  image_id:\n"
		for i := range n {
			text += fmt.Sprintf("    region-%d: ami-1\n", i)
		}
		return text
	}
	for text, want := range map[string]bool{
		"run: x\nresources: {disk_size: 0.9GB}\n":           false,
		"run: x\nresources: {memory: 0x}\n":                 false,
		"run: x\nresources: {cpus: 1+, memory: 1000000x}\n": true,
		"run: x\nresources: {cpus: 1+, memory: 1000001x}\n": false,
		probe("0"):                          false,
		probe("0.5"):                        true,
		probe("315360000"):                  true,
		probe("315360001"):                  false,
		images(jobtext.MaxAlternatives):     true,
		images(jobtext.MaxAlternatives + 1): false,
		"run: x\nresources: {image_id: {us-east-1: ami-1, us-east-2: [x]}}\n": false,
		"run: x\nresources: {image_id: {\"us east\": ami-1}}\n":               false,
		"run: x\nsecrets: [[a]]\n":                                            false,
		"run: x\nsecrets: {A: x, B: [y]}\n":                                   false,
	} {
		if _, err := Parse("sky.yaml", []byte(text)); (err == nil) != want {
			t.Errorf("%.100s\n%v", text, err)
		}
	}
}

func TestSecretsOfTask(t *testing.T) {
	for _, text := range []string{"secrets: {A: x, B: y, C: z}", "secrets: [A, \"name:B\", C]"} {
		if got := readSky(t, "run: x\n"+text+"\n").Tasks[0].Secrets; !slices.Equal(got, []string{"A", "B", "C"}) {
			t.Errorf("%s are %v", text, got)
		}
	}
}

// TestServiceListensOnFirstPort checks that a service uses the first port, and that more ports get a warning.
func TestServiceListensOnFirstPort(t *testing.T) {
	for ports, warned := range map[string]bool{"8080": false, "[8080]": false, "[8080, 8081]": true} {
		j := readSky(t, "run: x\nresources: {ports: "+ports+"}\n"+
			"service: {readiness_probe: {path: /, initial_delay_seconds: 2.5}}\n")
		s := j.Tasks[0].Service
		if s.Port != 8080 || s.Readiness.InitialDelay != 2500*time.Millisecond {
			t.Errorf("ports %s: %+v", ports, s)
		}
		if got := strings.Contains(strings.Join(j.Warnings, "\n"), "listens on the first"); got != warned {
			t.Errorf("ports %s: warnings %q", ports, j.Warnings)
		}
	}
}

func TestLooks(t *testing.T) {
	for text, want := range map[string]bool{
		"{x: y}": false, "{}": false, "{x: run}": false, "{run: x}": true, "{x: y, setup: z}": true,
	} {
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		if got := IsSkyPilot(doc.Content[0]); got != want {
			t.Errorf("%s looks like a task: %v", text, got)
		}
	}
}

// TestMountPathsExpandVariables checks that variables in mount paths are expanded as in a shell.
func TestMountPathsExpandVariables(t *testing.T) {
	for name, want := range map[string]string{
		"/a/$A9/b": "/a/v/b", "/a/${A9}b": "/a/vb", "/a/$B": "/a/$B", "/a/$1": "/a/$1", "/a$": "/a$",
		"/$/$A9": "/$/v", "/${A9": "/${A9",
	} {
		j := readSky(t, "run: x\nenvs: {A9: v}\nfile_mounts: {\""+name+"\": ./here}\n")
		if got := j.Tasks[0].Inputs[0].Path; got != want {
			t.Errorf("%s is at %s, want %s", name, got, want)
		}
	}
}
