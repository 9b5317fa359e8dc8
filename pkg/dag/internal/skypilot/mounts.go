package skypilot

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/dag"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// skyStorage is a file mount of a bucket.
type skyStorage struct {
	name, store, mode string
	below             string // the path in the bucket
	sources           []string
	temporary         bool
	readOnly          bool
	at                *yaml.Node // of name or store
}

// readMounts reads file_mounts: a mapping from the paths that the task sees to their sources.
func (r *reader) readMounts(t *skyTask, n *yaml.Node) error {
	return r.Each(n, func(e yamlfile.Entry) error {
		dst := inWorkdir(r.expand(t, e.Name, "file_mounts", e.Key))
		if err := jobtext.CheckMountPath(dst); err != nil {
			return fault.At(yamlfile.PositionOf(e.Name), err)
		}
		from := len(t.Inputs)
		if err := r.readMount(t, dst, e.Node); err != nil {
			return err
		}
		for i := from; i < len(t.Inputs); i++ {
			t.markFile(dag.InputField(i), e.Node, fault.Join("file_mounts", fault.KeyElement(e.Key)))
		}
		if len(t.Inputs) > jobtext.MaxFiles {
			return fault.At(
				yamlfile.PositionOf(e.Name),
				fault.OverLimit(fmt.Sprintf("more than %d mounts", jobtext.MaxFiles), ""),
			)
		}
		return nil
	})
}

// inWorkdir returns a path in ~/sky_workdir relative to the task's working folder. SkyPilot files use ~/sky_workdir
// for that folder; here it is a link that the task makes when it starts.
func inWorkdir(dst string) string {
	const name = "~/sky_workdir"
	clean := path.Clean(dst)
	if clean == name {
		return "."
	}
	if below, ok := strings.CutPrefix(clean, name+"/"); ok {
		return below
	}
	return dst
}

func (r *reader) readMount(t *skyTask, dst string, n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		s, err := r.Text(n)
		if err != nil {
			return err
		}
		src, err := r.filled(t, n, "file_mounts", s)
		if err != nil {
			return err
		}
		return t.addInput(dag.Input{URI: src, Path: dst})
	}
	var s skyStorage
	if err := yamlfile.ReadFields(&r.Reader, r.expanded(t, n, "file_mounts", "name", "source"), r.storage,
		&s); err != nil {
		return err
	}
	for i := range s.sources {
		var err error
		if s.sources[i], err = r.filled(t, n, "file_mounts", s.sources[i]); err != nil {
			return fault.Within("source", err)
		}
	}
	name := r.expand(t, n, "file_mounts", s.name)
	if name == "" && s.name != "" {
		_, err := r.filled(t, n, "file_mounts", s.name)
		return fault.Within("name", err)
	}
	s.name = name
	return r.addStorage(t, dst, &s, n)
}

func (r *reader) forStorage() yamlfile.Fields[*skyStorage] {
	y := &r.Reader
	ignored := func(*skyStorage, *yaml.Node) error { return nil }
	known := yamlfile.Fields[*skyStorage]{
		"name": func(s *skyStorage, n *yaml.Node) error {
			s.at = n
			return yamlfile.TextField(
				y,
				func(s *skyStorage) *string { return &s.name },
				yamlfile.Checked(jobtext.CheckText),
			)(
				s,
				n,
			)
		},
		"source": func(s *skyStorage, n *yaml.Node) error {
			if n.Kind != yaml.SequenceNode {
				text, err := r.Text(n)
				s.sources = []string{text}
				return err
			}
			return r.List(n, func(_ int, n *yaml.Node) error {
				text, err := r.Text(n)
				s.sources = append(s.sources, text)
				return err
			})
		},
		"store": yamlfile.TextField(
			y,
			func(s *skyStorage) *string { return &s.store },
			func(s string) (string, error) {
				s = strings.ToLower(s)
				return s, fault.CheckWord(
					"store",
					s,
					"s3",
					"gcs",
					"azure",
					"r2",
					"ibm",
					"oci",
					"nebius",
					"coreweave",
					"volume",
				)
			},
		),
		"mode": yamlfile.TextField(y, func(s *skyStorage) *string { return &s.mode }, func(s string) (string, error) {
			s = strings.ToUpper(s)
			return s, fault.CheckWord("mode", s, "MOUNT", "COPY", "MOUNT_CACHED")
		}),
		"type": func(s *skyStorage, n *yaml.Node) error {
			text, err := r.Text(n)
			if strings.EqualFold(text, "volume") {
				return r.Fault(n, volumesMissing, useBuckets)
			}
			if err == nil {
				err = fault.CheckWord("type", strings.ToLower(text), "bucket")
			}
			return err
		},
		"persistent": func(s *skyStorage, n *yaml.Node) error {
			persistent, err := y.Boolean(n)
			s.temporary = !persistent
			return err
		},
		"_bucket_sub_path": func(s *skyStorage, n *yaml.Node) (err error) {
			s.below, err = r.Text(n)
			return err
		},
		"config": r.readStorageConfig,
		"mount_options": func(_ *skyStorage, n *yaml.Node) error {
			return r.Fault(
				n,
				"options of SkyPilot's mount program are not passed on",
				"config: {mount: {read_only: true}}",
			)
		},
		"_is_sky_managed": ignored, "_force_delete": ignored,
	}
	for field, read := range known {
		known[field] = func(s *skyStorage, n *yaml.Node) error {
			if yamlfile.IsNull(n) {
				return nil
			}
			return read(s, n)
		}
	}
	return known
}

// readStorageConfig reads how a bucket is mounted. The agent chooses the sizes of buffers and caches.
func (r *reader) readStorageConfig(s *skyStorage, n *yaml.Node) error {
	y := &r.Reader
	readOnly := func(s *skyStorage, n *yaml.Node) (err error) {
		s.readOnly, err = r.Boolean(n)
		return err
	}
	cached := yamlfile.Fields[*skyStorage]{"read_only": readOnly}
	for _, field := range []string{"transfers", "buffer_size", "vfs_cache_max_size", "vfs_cache_max_age",
		"vfs_read_ahead", "vfs_read_chunk_size", "vfs_read_chunk_streams", "vfs_write_back"} {
		cached[field] = func(_ *skyStorage, n *yaml.Node) error {
			r.job.Warn(
				yamlfile.PositionOf(n),
				"file_mounts.config.mount_cached."+field,
				"is ignored: the agent "+
					"chooses it",
			)
			return nil
		}
	}
	ofVolume := func(_ *skyStorage, n *yaml.Node) error { return r.Fault(n, volumesMissing, useBuckets) }
	return yamlfile.ReadFields(y, n, yamlfile.Fields[*skyStorage]{
		"mount": func(s *skyStorage, n *yaml.Node) error {
			return yamlfile.ReadFields(y, n, yamlfile.Fields[*skyStorage]{
				"read_only": readOnly,
				"hf_mount_args": func(_ *skyStorage, n *yaml.Node) error {
					return r.Fault(n, "stores of Hugging Face are not mounted", "download the data in setup")
				},
			}, s)
		},
		"mount_cached": func(s *skyStorage, n *yaml.Node) error { return yamlfile.ReadFields(y, n, cached, s) },
		"disk_size":    ofVolume, "disk_tier": ofVolume, "storage_type": ofVolume, "attach_mode": ofVolume,
	}, s)
}

// addInput adds an input. It returns an error if the input is invalid or conflicts with another one.
func (t *skyTask) addInput(in dag.Input) error {
	if err := jobtext.CheckURI(in.URI); err != nil {
		return err
	}
	if err := in.CheckMount(); err != nil {
		return err
	}
	t.Inputs = append(t.Inputs, in)
	return t.places.Add(&in)
}

// mount converts SkyPilot's mode.
func (s *skyStorage) mount() dag.Mount {
	switch {
	case s.mode == "COPY":
		return dag.Copied
	case s.readOnly:
		return dag.MountRead
	case s.mode == "MOUNT_CACHED":
		return dag.MountCached
	}
	return dag.MountWrite // MOUNT, SkyPilot's default
}

// bucket returns how a named bucket is handled: like SkyPilot, the broker creates it if it does not exist, and keeps
// it unless persistent is false.
func (s *skyStorage) bucket() dag.Bucket {
	if s.temporary {
		return dag.BucketTemporary
	}
	return dag.BucketCreate
}

// addStorage converts a bucket mount to inputs: its sources, or the bucket itself.
func (r *reader) addStorage(t *skyTask, dst string, s *skyStorage, n *yaml.Node) error {
	field := "file_mounts." + dst
	if s.store == "volume" {
		return r.Fault(n, volumesMissing, useBuckets)
	}
	if len(s.sources) == 0 {
		if s.name == "" {
			return fault.New("names neither a bucket nor a source", "add a source or a name")
		}
		uri, err := r.bucketURI(t, s, field)
		if err != nil {
			return err
		}
		return t.addInput(dag.Input{URI: uri, Path: dst, Mount: s.mount(), Bucket: s.bucket()})
	}
	nameless := false
	for _, src := range s.sources {
		in := dag.Input{URI: src, Path: dst}
		switch {
		case strings.Contains(src, "://"):
			in.Mount = s.mount()
		case s.name == "":
			nameless = true
		default:
			uri, err := r.bucketURI(t, s, field)
			if err != nil {
				return err
			}
			in = dag.Input{URI: uri, Path: dst, Mount: s.mount(), Bucket: s.bucket(), Source: src}
			if len(s.sources) > 1 {
				in.URI += "/" + lastElement(src)
			}
		}
		if len(s.sources) > 1 { // several sources go into one folder
			in.Path = path.Join(dst, lastElement(src))
		}
		if err := t.addInput(in); err != nil {
			return err
		}
	}
	if nameless {
		r.job.Warn(yamlfile.PositionOf(n), field,
			"local sources without the name of a bucket are copied to the machine: files that the task writes there "+
				"stay on the machine")
	}
	return nil
}

// bucketURI returns the URI of a bucket by its name.
func (r *reader) bucketURI(t *skyTask, s *skyStorage, field string) (string, error) {
	scheme, err := r.bucketScheme(t, s, field)
	if err != nil {
		return "", fault.At(yamlfile.PositionOf(s.at), err)
	}
	uri := scheme + "://" + s.name
	if s.below != "" {
		uri += "/" + strings.Trim(s.below, "/")
	}
	return uri, nil
}

// bucketScheme returns the URI scheme of a bucket that has only a name: that of its store, or else of the cloud of
// the task.
func (r *reader) bucketScheme(t *skyTask, s *skyStorage, field string) (string, error) {
	stores := map[string]string{"s3": "s3", "gcs": "gs", "azure": "azblob"}
	if s.store != "" {
		if scheme, ok := stores[s.store]; ok {
			return scheme, nil
		}
		return "", fault.New("data cannot be read from a bucket of "+s.store, "s3, gcs and azure can be read")
	}
	byCloud := map[string]string{"aws": "s3", "gcp": "gs", "azure": "azblob"}
	if scheme, ok := byCloud[t.Resources[0].Cloud]; ok {
		return scheme, nil
	}
	r.job.Warn(yamlfile.PositionOf(s.at), field, "does not name the store of the bucket, so it is s3")
	return "s3", nil
}

// lastElement returns the last element of a path or URL.
func lastElement(s string) string {
	s = strings.TrimRight(s, "/")
	return s[strings.LastIndexByte(s, '/')+1:]
}

// filled is expand for a text that names data. If the named data cannot exist, the error names the
// variables that cause it: in a local path, those declared without a value; in the name of a
// bucket, unknown ones; in any text, empty ones if nothing else is left.
func (r *reader) filled(t *skyTask, n *yaml.Node, field, s string) (string, error) {
	out := r.expand(t, n, field, s)
	local := !strings.Contains(out, "://")
	var names []string
	for rest := s; ; {
		i := strings.IndexByte(rest, '$')
		if i < 0 || i+1 == len(rest) {
			break
		}
		name, length := variable(rest[i:])
		rest = rest[i+length:]
		value, given := t.Env[name]
		empty := given && value == "" && jobtext.CheckURI(out) != nil
		unknown := name != "" && !given && !t.unset[name] && jobtext.CheckPlainURI(out) != nil
		if unknown && slices.Contains(t.Secrets, name) {
			return "", r.Fault(n, fault.Quote(s)+" uses a secret, which cannot be part of a name",
				"declare "+name+" in envs")
		}
		if (empty || unknown || t.unset[name] && local) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return out, nil
	}
	return "", r.Fault(n, fault.Quote(s)+" has no value for "+strings.Join(names, ", "),
		"set it in envs, or with --env "+names[0]+"=VALUE")
}

// expanded returns a copy of a value in which variables are replaced in every text. keep are fields that the caller
// expands itself.
func (r *reader) expanded(t *skyTask, n *yaml.Node, field string, keep ...string) *yaml.Node {
	if n.Kind == yaml.ScalarNode {
		if !strings.Contains(n.Value, "$") {
			return n
		}
		text := *n
		text.Value, text.Tag = r.expand(t, n, field, n.Value), "!!str"
		return &text
	}
	if n.Kind != yaml.MappingNode && n.Kind != yaml.SequenceNode {
		return n
	}
	out := *n
	out.Content = slices.Clone(n.Content)
	for i, c := range out.Content {
		if n.Kind == yaml.MappingNode && (i%2 == 0 || slices.Contains(keep, n.Content[i-1].Value)) {
			continue
		}
		out.Content[i] = r.expanded(t, c, field)
	}
	return &out
}

// expand replaces $NAME and ${NAME} with the values of the task's variables. Other names stay unchanged; it warns
// about those that the file declares without a value.
func (r *reader) expand(t *skyTask, n *yaml.Node, field, s string) string {
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
			switch {
			case t.unset[name]:
				r.job.Warn(yamlfile.PositionOf(n), field, "uses "+s[:length]+", which has no value")
			case slices.Contains(t.Secrets, name):
				r.job.Warn(yamlfile.PositionOf(n), field,
					"uses "+s[:length]+", a secret, which cannot be part of a name: use envs")
			}
		}
		b.WriteString(value)
		s = s[length:]
		if b.Len() > jobtext.MaxTextBytes { // it will be rejected; continuing could exhaust the memory
			return b.String()
		}
	}
}

// variable reads $NAME or ${NAME} at the beginning of s and returns its length, or 1 if there is none.
func variable(s string) (name string, length int) {
	begin := 1
	if strings.HasPrefix(s, "${") {
		begin = 2
	}
	end := begin
	for end < len(s) && (fault.IsAlnum(s[end]) || s[end] == '_') {
		end++
	}
	if end == begin || s[begin] <= '9' {
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
