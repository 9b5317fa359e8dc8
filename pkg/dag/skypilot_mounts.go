package dag

import (
	"fmt"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// skyStorage is a file mount that is a bucket.
type skyStorage struct {
	name, store, mode string
	sources           []string
	isVolume          bool
	at                *yaml.Node // of name or store
}

// readMounts reads file_mounts: where the task sees something, and what.
func (r *skyReader) readMounts(t *skyTask, n *yaml.Node) error {
	entries, err := r.mapping(n)
	if err != nil {
		return err
	}
	for _, e := range entries {
		dst := r.expand(t, e.name, "file_mounts", e.key)
		if err := checkMountPath(dst); err != nil {
			return withinKey(e.key, at(positionOf(e.name), err))
		}
		if err := r.readMount(t, dst, e.node); err != nil {
			return withinKey(e.key, at(positionOf(e.node), err))
		}
		if len(t.Inputs) > MaxFiles {
			return at(positionOf(e.name), overLimit(fmt.Sprintf("more than %d mounts", MaxFiles), ""))
		}
	}
	return nil
}

func (r *skyReader) readMount(t *skyTask, dst string, n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		s, err := r.text(n)
		if err != nil {
			return err
		}
		src := r.expand(t, n, "file_mounts", s)
		t.Inputs = append(t.Inputs, Input{URI: src, Path: dst})
		return checkURI(src)
	}
	var s skyStorage
	if err := readFields(&r.yamlReader, n, r.storage, &s); err != nil {
		return err
	}
	for i := range s.sources {
		s.sources[i] = r.expand(t, n, "file_mounts", s.sources[i])
	}
	s.name = r.expand(t, n, "file_mounts", s.name)
	return r.addStorage(t, dst, &s, n)
}

func (r *skyReader) forStorage() fields[*skyStorage] {
	y := &r.yamlReader
	ignored := func(*skyStorage, *yaml.Node) error { return nil }
	known := fields[*skyStorage]{
		"name": func(s *skyStorage, n *yaml.Node) error {
			s.at = n
			return textField(y, func(s *skyStorage) *string { return &s.name }, checked(checkText))(s, n)
		},
		"source": func(s *skyStorage, n *yaml.Node) error {
			if n.Kind != yaml.SequenceNode {
				text, err := r.text(n)
				s.sources = []string{text}
				return err
			}
			return r.list(n, func(_ int, n *yaml.Node) error {
				text, err := r.text(n)
				s.sources = append(s.sources, text)
				return err
			})
		},
		"store": textField(y, func(s *skyStorage) *string { return &s.store }, func(s string) (string, error) {
			s = strings.ToLower(s)
			return s, checkChoice("store", s, []string{"s3", "gcs", "azure", "r2", "ibm", "oci", "nebius", "coreweave", "volume"})
		}),
		"mode": textField(y, func(s *skyStorage) *string { return &s.mode }, func(s string) (string, error) {
			s = strings.ToUpper(s)
			return s, checkChoice("mode", s, []string{"MOUNT", "COPY", "MOUNT_CACHED"})
		}),
		"type": func(s *skyStorage, n *yaml.Node) error {
			text, err := r.text(n)
			s.isVolume = strings.EqualFold(text, "volume")
			return err
		},
		// Who deletes the bucket and how it is mounted is left to the user and the agent.
		"persistent": ignored, "config": ignored, "mount_options": ignored,
		"_is_sky_managed": ignored, "_bucket_sub_path": ignored, "_force_delete": ignored,
	}
	for field, read := range known {
		known[field] = func(s *skyStorage, n *yaml.Node) error {
			if isNull(n) {
				return nil
			}
			return read(s, n)
		}
	}
	return known
}

// addStorage turns a bucket mount into inputs: its sources, or the bucket itself.
func (r *skyReader) addStorage(t *skyTask, dst string, s *skyStorage, n *yaml.Node) error {
	field := "file_mounts." + dst
	if s.isVolume || s.store == "volume" {
		r.job.warn(r.file, positionOf(n), field, "volumes are not mounted")
		return nil
	}
	mount := s.mode != "COPY"
	if len(s.sources) == 0 {
		if s.name == "" {
			return fault("names neither a bucket nor a source", "give it a source or a name")
		}
		scheme, err := r.bucketScheme(t, s, field)
		if err != nil {
			return at(positionOf(s.at), err)
		}
		r.job.warn(r.file, positionOf(s.at), field, "the bucket must exist: none is made")
		t.Inputs = append(t.Inputs, Input{URI: scheme + "://" + s.name, Path: dst, Mount: mount})
		return checkURI(scheme + "://" + s.name)
	}
	local := false
	for _, src := range s.sources {
		in := Input{URI: src, Path: dst}
		if strings.Contains(src, "://") {
			in.Mount = mount
		} else {
			local = true
		}
		if len(s.sources) > 1 { // several are laid side by side
			in.Path = path.Join(dst, lastElement(src))
		}
		if err := checkURI(src); err != nil {
			return err
		}
		t.Inputs = append(t.Inputs, in)
	}
	if local {
		r.job.warn(r.file, positionOf(n), field, "local sources are staged to the machine, not through a bucket")
	}
	return nil
}

// bucketScheme is the scheme of a bucket that is named without one: by its store, else by the cloud
// the task is on.
func (r *skyReader) bucketScheme(t *skyTask, s *skyStorage, field string) (string, error) {
	stores := map[string]string{"s3": "s3", "gcs": "gs", "azure": "azblob"}
	if s.store != "" {
		if scheme, ok := stores[s.store]; ok {
			return scheme, nil
		}
		return "", fault("data cannot be read from a bucket of "+s.store, "s3, gcs and azure can be read")
	}
	byCloud := map[string]string{"aws": "s3", "gcp": "gs", "azure": "azblob"}
	if scheme, ok := byCloud[t.Resources[0].Cloud]; ok {
		return scheme, nil
	}
	r.job.warn(r.file, positionOf(s.at), field, "does not say in which store the bucket is: s3 is taken")
	return "s3", nil
}

// lastElement is the last part of a path or URL.
func lastElement(s string) string {
	s = strings.TrimRight(s, "/")
	return s[strings.LastIndexByte(s, '/')+1:]
}

// expand replaces $NAME and ${NAME} by the task's variables. Others stay, with a warning about those
// the file names without a value.
func (r *skyReader) expand(t *skyTask, n *yaml.Node, field, s string) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 || i+1 == len(s) {
			return b.String() + s
		}
		b.WriteString(s[:i])
		s = s[i:]
		name, length := variable(s)
		value, ok := t.Env[name]
		if !ok {
			value = s[:length]
			if t.unset[name] {
				r.job.warn(r.file, positionOf(n), field, "uses "+s[:length]+", which has no value")
			}
		}
		b.WriteString(value)
		s = s[length:]
		if b.Len() > MaxTextBytes { // which is refused; to go on could fill the memory
			return b.String()
		}
	}
}

// variable reads $NAME or ${NAME} at the beginning of s, and says how long that is; 1 if it is not
// there.
func variable(s string) (name string, length int) {
	begin := 1
	if strings.HasPrefix(s, "${") {
		begin = 2
	}
	end := begin
	for end < len(s) && (isAlnum(s[end]) || s[end] == '_') {
		end++
	}
	if end == begin || s[begin] >= '0' && s[begin] <= '9' {
		return "", 1
	}
	if begin == 1 {
		return s[1:end], end
	}
	if end < len(s) && s[end] == '}' {
		return s[2:end], end + 1
	}
	return "", 1
}
