package dag

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// ReadFile reads the job in the file at path, in any of the forms. Its errors are *Error.
func ReadFile(path string) (*Job, error) {
	f, err := os.Open(path) //nolint:gosec // reading the file that the caller names is the purpose
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer f.Close() //nolint:errcheck // only read from
	info, err := f.Stat()
	if err != nil {
		return nil, unreadable(path, err)
	}
	if info.IsDir() {
		return nil, &Error{File: path, Reason: "is a directory", Hint: "name one file"}
	}
	return Read(path, f)
}

// Read reads a job in any of the forms from r, gzipped or not. name is the file's name for messages;
// its base is the job's name where the file gives none, and its extension settles the form where the
// content does not. Errors are *Error.
func Read(name string, r io.Reader) (*Job, error) {
	data, err := load(name, r)
	if err != nil {
		return nil, err
	}
	return inForm(name, func() (*Job, error) {
		switch first := firstByte(data); {
		case first == 0:
			return nil, fault("the file is empty", "")
		case first == '<':
			return parseDAX(name, data)
		case first == '{' && isWfFormat(name, data):
			return parseWfFormat(name, data)
		}
		return parseYAML(name, data)
	})
}

// ReadNative reads a job in Tradewind's own form. See [Schema] for its fields.
func ReadNative(name string, r io.Reader) (*Job, error) { return readForm(name, r, parseNative) }

// ReadSkyPilot reads SkyPilot tasks: one YAML document a task, several documents a chain.
//
// What is not set means what it means to SkyPilot: no use_spot is on-demand, and no resources at all
// are 8 vCPUs with 32 GiB.
func ReadSkyPilot(name string, r io.Reader) (*Job, error) { return readForm(name, r, parseSkyPilot) }

// ReadWfFormat reads a recorded execution in WfCommons WfFormat 1.3, 1.4 or 1.5. Its tasks are
// stand-ins: the command in the record is what ran there, and cannot run anywhere else.
func ReadWfFormat(name string, r io.Reader) (*Job, error) { return readForm(name, r, parseWfFormat) }

// ReadDAX reads an abstract workflow in Pegasus DAX 2 or 3. Its jobs are stand-ins: what the
// transformations they name are is in catalogues of the site.
func ReadDAX(name string, r io.Reader) (*Job, error) { return readForm(name, r, parseDAX) }

func readForm(name string, r io.Reader, parse func(string, []byte) (*Job, error)) (*Job, error) {
	data, err := load(name, r)
	if err != nil {
		return nil, err
	}
	return inForm(name, func() (*Job, error) {
		if firstByte(data) == 0 {
			return nil, fault("the file is empty", "")
		}
		return parse(name, data)
	})
}

// inForm runs a parser and checks what it returns.
func inForm(name string, parse func() (*Job, error)) (*Job, error) {
	j, err := parse()
	if err == nil {
		err = j.Validate()
	}
	if err != nil {
		return nil, inFile(name, err)
	}
	return j, nil
}

// load reads all of r, unpacks it if it is gzipped, and sees that it is text within the limits.
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
		return nil, &Error{File: name, Line: 1, Reason: "the text is UTF-16", Hint: "save it as UTF-8"}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if i := invalidUTF8(data); i >= 0 {
		line, column := lineColumn(data, i)
		return nil, &Error{File: name, Line: line, Column: column, Reason: "the text is not UTF-8", Hint: "save it as UTF-8"}
	}
	return data, nil
}

func readAll(name string, r io.Reader, what string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxFileBytes+1))
	if len(data) > MaxFileBytes {
		return nil, inFile(name, overLimit(fmt.Sprintf("%s has more than %d MiB", what, MaxFileBytes>>20), ""))
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
	return &Error{File: name, Reason: "cannot be read: " + reason, cause: err}
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

// lineColumn turns an offset into a line and column from 1.
func lineColumn(data []byte, offset int) (line, column int) {
	before := data[:min(max(offset, 0), len(data))]
	return 1 + bytes.Count(before, []byte{'\n'}), len(before) - bytes.LastIndexByte(before, '\n')
}

// firstByte is the first that is not white space, or 0.
func firstByte(data []byte) byte {
	if data = bytes.TrimLeft(data, " \t\r\n"); len(data) > 0 {
		return data[0]
	}
	return 0
}

// isWfFormat says whether an object in braces is WfFormat rather than YAML, in which such an object
// could also be written.
func isWfFormat(name string, data []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(data))
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
			// Over the value of this key, whose first token may be a string too.
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

// nameFromFile makes a job's name of its file's.
func nameFromFile(file string) string {
	base := strings.TrimSuffix(filepath.Base(file), ".gz")
	if ext := filepath.Ext(base); ext != base {
		base = strings.TrimSuffix(base, ext)
	}
	return toName(base, "job")
}

// toName makes a name of any text: what no name has becomes '-'.
func toName(s, otherwise string) string {
	b := []byte(strings.TrimSpace(s))
	for i, c := range b {
		if !isAlnum(c) && c != '.' && c != '_' && c != '-' {
			b[i] = '-'
		}
	}
	b = bytes.TrimLeft(b, "-._")
	if len(b) > maxNameBytes {
		b = b[:maxNameBytes]
	}
	if len(b) == 0 {
		return otherwise
	}
	return string(b)
}
