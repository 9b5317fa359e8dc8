package tes

import (
	"bytes"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// ReadLog reads, from the log of an attempt, the lines that the script of a task wrote for it. It skips everything
// else. The log may end anywhere, for example because the machine was preempted.
func (t *Task) ReadLog(log []byte) ([]ExecutorLog, []OutputFileLog) {
	executors, outputs := []ExecutorLog{}, []OutputFileLog{}
	for len(log) > 0 {
		line, rest, _ := bytes.Cut(log, []byte("\n"))
		log = rest
		text := string(line)
		var i, code, out, err int
		var size int64
		var start, end string
		if n, _ := fmt.Sscanf(text, "== tes executor %d %s %s %d %d %d", &i, &start, &end, &code, &out, &err); n == 6 {
			if i != len(executors) || i >= len(t.Executors) || out < 0 || err < 0 {
				continue
			}
			e := ExecutorLog{StartTime: start, EndTime: end, ExitCode: code}
			e.Stdout, log = cut(log, out)
			e.Stderr, log = cut(log, err)
			executors = append(executors, e)
			continue
		}
		if n, _ := fmt.Sscanf(text, "== tes output %d %d", &i, &size); n == 2 && i >= 0 && i < len(t.Outputs) {
			fields := strings.SplitN(text, " ", 6)
			name := ""
			if len(fields) == 6 {
				name = fields[5]
			}
			outputs = append(outputs, t.Outputs[i].file(name, size))
		}
	}
	return executors, outputs
}

// cut splits off the first n bytes, as text.
func cut(b []byte, n int) (string, []byte) {
	n = min(n, len(b))
	text := string(b[:n])
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	return text, b[n:]
}

// file describes one file of an output; name is its path below the output.
func (o *Output) file(name string, size int64) OutputFileLog {
	f := OutputFileLog{URL: o.URL, Path: o.Path, SizeBytes: fmt.Sprint(size)}
	if name != "" {
		f.URL = strings.TrimSuffix(o.URL, "/") + "/" + name
		f.Path = path.Join(o.Path, name)
		if o.wild() {
			f.Path = path.Join(o.PathPrefix, name)
		}
	}
	return f
}
