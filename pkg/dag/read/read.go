// Package read reads a job from a file in any supported format: Tradewind's own, SkyPilot YAML, WfCommons WfFormat,
// Pegasus DAX, Kubernetes manifests or a Slurm batch script. It detects the format by the content. Files may be
// gzipped.
package read

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dax"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/skypilot"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/wfformat"
	"github.com/tradewind-broker/tradewind/pkg/dag/kubernetes"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
	"github.com/tradewind-broker/tradewind/pkg/dag/slurm"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/stopping"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
)

// File reads the job in the file at path, in any of the formats. Its errors are [*dag.Error].
func File(path string) (*dag.Job, error) {
	f, err := os.Open(path) //nolint:gosec // reading the file that the caller names is the purpose
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer f.Close() //nolint:errcheck // read-only
	info, err := f.Stat()
	if err != nil {
		return nil, unreadable(path, err)
	}
	if info.IsDir() {
		return nil, &dag.Error{File: path, Reason: "is a directory", Hint: "name one file"}
	}
	return Job(path, f)
}

// Job reads a job in any of the formats from r, gzipped or not. name is the file's name for messages; its base is the
// default name of the job, and its extension decides the format if the content is ambiguous. Errors are [*dag.Error].
func Job(name string, r io.Reader) (*dag.Job, error) {
	return JobContext(context.Background(), name, r)
}

// JobContext is Job for a caller that may give up: when the context ends, it stops and returns the context's error,
// which is not a [*dag.Error].
func JobContext(ctx context.Context, name string, r io.Reader) (*dag.Job, error) {
	j, err := parse(ctx, name, r, nil)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("read %s: %w", name, context.Cause(ctx))
	}
	return j, err
}

// JobWithEnv is Job with additional variables for every task with a script; they override those of the file. A SkyPilot
// file may use them in its paths and buckets, a manifest in its commands and in other variables.
func JobWithEnv(name string, r io.Reader, env map[string]string) (*dag.Job, error) {
	j, err := parse(context.Background(), name, r, env)
	if err == nil && len(env) > 0 {
		err = j.AddEnv(env)
	}
	if err != nil {
		return nil, err
	}
	return j, nil
}

func parse(ctx context.Context, name string, r io.Reader, env map[string]string) (*dag.Job, error) {
	data, err := load(name, r)
	if err != nil {
		return nil, err
	}
	switch first := firstByte(data); {
	case first == 0:
		return dag.CheckJob(name, nil, fault.New("the file is empty", ""))
	case first == '<':
		return dax.ParseContext(ctx, name, data)
	case first == '#' && slurm.IsScript(data):
		return slurm.Parse(name, data)
	case first == '{' && isWfFormat(ctx, name, data):
		return wfformat.ParseContext(ctx, name, data)
	}
	return parseYAML(ctx, name, data, env)
}

// parseYAML detects the format of a YAML file and reads it.
func parseYAML(ctx context.Context, name string, data []byte, env map[string]string) (*dag.Job, error) {
	docs, from, err := yamlfile.DecodeContext(ctx, data)
	script := bytes.HasPrefix(data, []byte("#!"))
	const scripts = "a Slurm batch script has a line that begins with #SBATCH before its first command"
	if err != nil {
		if script {
			err = fault.New("is a script, but not a Slurm batch script", scripts)
		}
		return dag.CheckJob(name, nil, err)
	}
	switch first := docs[0]; {
	case first.Kind != yaml.MappingNode:
		hint := "a job is a mapping: apiVersion, name, tasks"
		if script {
			hint = scripts
		}
		err = from.Fault(first, "is "+yamlfile.Describe(first)+", not a job", hint)
	case kubernetes.IsManifest(first):
		return kubernetes.FromYAML(name, docs, from, env)
	case native.IsNative(first):
		return native.FromYAML(name, docs, from)
	case skypilot.IsSkyPilot(first):
		return skypilot.FromYAML(name, docs, from, env)
	default:
		err = from.Fault(
			first,
			"is in none of the formats that Tradewind reads",
			"begin a job with apiVersion: "+dag.APIVersion+
				"; SkyPilot YAML, WfFormat JSON, Pegasus DAX and Kubernetes manifests are read too",
		)
	}
	return dag.CheckJob(name, nil, err)
}

// load reads all of r, unpacks it if it is gzipped, and checks that it is text within the limits.
func load(name string, r io.Reader) ([]byte, error) {
	data, err := readAll(name, r, "the file")
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, unreadable(name, fmt.Errorf("gzip: %w", err))
		}
		if data, err = readAll(name, z, "the unpacked file"); err != nil {
			return nil, err
		}
	}
	if bytes.HasPrefix(data, []byte{0xfe, 0xff}) || bytes.HasPrefix(data, []byte{0xff, 0xfe}) {
		return nil, &dag.Error{File: name, Line: 1, Reason: "the text is UTF-16", Hint: "save it as UTF-8"}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if i := invalidUTF8(data); i >= 0 {
		at := fault.PositionIn(data, i)
		return nil, &dag.Error{
			File:   name,
			Line:   int(at.Line),
			Column: int(at.Column),
			Reason: "the text is not UTF-8",
			Hint:   "save it as UTF-8",
		}
	}
	return data, nil
}

func readAll(name string, r io.Reader, what string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, dag.MaxFileBytes+1))
	if len(data) > dag.MaxFileBytes {
		return nil, fault.InFile(
			name,
			fault.OverLimit(fmt.Sprintf("%s has more than %d MiB", what, dag.MaxFileBytes>>20), ""),
		)
	}
	if err != nil {
		return nil, unreadable(name, err)
	}
	return data, nil
}

func unreadable(name string, err error) error {
	reason := err.Error()
	var pathError *os.PathError // whose text would repeat the name
	if errors.As(err, &pathError) {
		reason = pathError.Err.Error()
	}
	return &dag.Error{File: name, Reason: "cannot be read: " + reason, Cause: err}
}

func invalidUTF8(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// firstByte returns the first byte that is not white space, or 0.
func firstByte(data []byte) byte {
	if data = bytes.TrimLeft(data, " \t\r\n"); len(data) > 0 {
		return data[0]
	}
	return 0
}

// isWfFormat reports whether an object in braces is WfFormat, not YAML, which can have this form too.
func isWfFormat(ctx context.Context, name string, data []byte) bool {
	dec := json.NewDecoder(stopping.Reader(ctx, data))
	if _, err := dec.Token(); err != nil {
		return false
	}
	for depth := 0; ; {
		token, err := dec.Token()
		if err != nil {
			return hasExtension(name, ".json")
		}
		switch t := token.(type) {
		case json.Delim:
			if t == '{' || t == '[' {
				depth++
			} else if depth--; depth < 0 {
				return hasExtension(name, ".json")
			}
		case string:
			if depth > 0 {
				continue
			}
			switch t {
			case "schemaVersion", "workflow":
				return true
			case "apiVersion", "tasks":
				return false
			}
			// Skip the value of this key, because its first token may be a string too.
			value, err := dec.Token()
			if d, ok := value.(json.Delim); ok && (d == '{' || d == '[') {
				depth++
			} else if err != nil {
				return hasExtension(name, ".json")
			}
		}
	}
}

func hasExtension(name, extension string) bool {
	return strings.EqualFold(filepath.Ext(strings.TrimSuffix(name, ".gz")), extension)
}
