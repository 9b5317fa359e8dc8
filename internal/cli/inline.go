package cli

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/catalog/accel"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// inline are the flags of a job whose only task is a command of the command line.
type inline struct {
	name, cpus, memory, gpus, disk string
	time                           command.Span
	set                            func(flag string) bool
}

// inlineFlagNames are the flags that only such a job has.
var inlineFlagNames = []string{"name", "cpus", "memory", "gpus", "disk", "time"}

func inlineFlags(c *cobra.Command) *inline {
	o := &inline{set: c.Flags().Changed}
	f := c.Flags()
	f.StringVar(&o.name, "name", "", "with -- COMMAND: name of the job (default: that of the folder)")
	f.StringVar(&o.cpus, "cpus", "", "with -- COMMAND: vCPUs of the machine: 8 or 8+ at least, =8 exactly, 8-16")
	f.StringVar(&o.memory, "memory", "", "with -- COMMAND: GiB of memory: 32, =32, 32-64")
	f.StringVar(&o.gpus, "gpus", "", "with -- COMMAND: accelerators: A100, V100:4")
	f.StringVar(&o.disk, "disk", "", "with -- COMMAND: size of the disk: 200GiB")
	command.CompleteCatalog(c, "gpus", command.Accelerators)
	f.Var(&o.time, "time", "with -- COMMAND: about how long it takes: 10m, 2h (default 1h)")
	return o
}

// refuse refuses the flags for a job that a file describes.
func (o *inline) refuse() error {
	for _, name := range inlineFlagNames {
		if o.set(name) {
			return command.BadInput("write it in the file, or give the command after --",
				"--%s is for a command after --, not for a job file", name)
		}
	}
	return nil
}

// check names the flag whose value is wrong.
func (o *inline) check() error {
	for _, v := range []struct {
		flag, value string
		parse       func(string) error
	}{
		{"name", o.name, dag.CheckName},
		{"cpus", o.cpus, func(s string) error { _, err := dag.ParseCPUsAtLeast(s); return err }},
		{"memory", o.memory, func(s string) error { _, err := dag.ParseMemoryAtLeast(s); return err }},
		{"gpus", o.gpus, func(s string) error { _, err := accel.Parse(s); return err }},
		{"disk", o.disk, func(s string) error { _, err := dag.ParseSize(s); return err }},
	} {
		if v.value == "" {
			continue
		}
		if err := v.parse(v.value); err != nil {
			return command.BadInput("", "--%s: %v", v.flag, err)
		}
	}
	return nil
}

// file returns the job file for a command. A single argument is a line of a shell; several are quoted as they are. If
// the command names a file of the current folder, the folder is uploaded.
func (o *inline) file(words []string) ([]byte, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if script := missingScript(".", words); script != "" {
		return nil, command.BadInput("change into the folder of "+script+", or correct its name; write the absolute "+
			"path of a file that the image has", "the command starts %s, which does not exist in this folder", script)
	}
	line := words[0]
	if len(words) > 1 {
		line = shellLine(words)
	}
	name := o.name
	if name == "" {
		dir, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		name = dag.ToName(filepath.Base(dir), "job")
	}
	resources := map[string]string{}
	for field, value := range map[string]string{
		"cpus": o.cpus, "memory": o.memory, "accelerators": o.gpus, "disk": o.disk,
	} {
		if value != "" {
			resources[field] = value
		}
	}
	task := map[string]any{"run": line, "resources": resources}
	if o.time.Value > 0 {
		task["time"] = o.time.Value.String()
	}
	if needsFolder(".", line) {
		task["workdir"] = "."
	}
	return yaml.Marshal(map[string]any{
		"apiVersion": "tradewind/v1", "name": name, "tasks": map[string]any{"main": task},
	})
}

// quote makes a word that a POSIX shell reads as it is (POSIX.1-2024, 2.2.2, "Single-Quotes").
func quote(word string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("-_./:=@%+,", r)
	}
	if word != "" && strings.TrimFunc(word, safe) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// shellLine makes a line of words that a POSIX shell reads as they are.
func shellLine(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = quote(word)
	}
	return strings.Join(quoted, " ")
}
