package kubernetes

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/base/yamlfile"

	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/podtext"
)

// file is a file that a pod gets from a ConfigMap or a Secret.
type file struct {
	path, text string
	secret     string // the variable with the text, if it is a secret
	mode       string // octal; empty is the shell's default
}

// volume is a volume of a pod: a folder, files, or a kind that is not supported.
type volume struct {
	folder, memory bool
	files          map[string]file // by path in it
	kind           string          // set for a kind that is not supported
}

func (r *reader) readVolumes(p *pod, n *yaml.Node) error {
	p.volumes = map[string]volume{}
	return r.list(n, func(_ int, n *yaml.Node) error {
		name, v := "", volume{}
		known := fields[*volume]{
			"name": func(_ *volume, n *yaml.Node) (err error) { name, err = r.Text(n); return err },
			"emptyDir": func(v *volume, n *yaml.Node) error {
				v.folder = true
				return readInto(r, n, fields[*volume]{
					"medium": func(v *volume, n *yaml.Node) error {
						s, err := r.Text(n)
						v.memory = s == "Memory"
						return err
					},
				}.with(silentlyIgnored[*volume]("sizeLimit")), v)
			},
			"configMap": func(v *volume, n *yaml.Node) error { return r.volumeOf(v, n, "ConfigMap") },
			"secret":    func(v *volume, n *yaml.Node) error { return r.volumeOf(v, n, "Secret") },
		}
		for _, kind := range []string{"persistentVolumeClaim", "hostPath", "nfs", "projected", "downwardAPI", "csi",
			"ephemeral", "image", "gcePersistentDisk", "awsElasticBlockStore", "azureDisk", "azureFile",
			"cephfs", "cinder",
			"fc", "flexVolume", "flocker", "gitRepo", "glusterfs", "iscsi", "photonPersistentDisk", "portworxVolume",
			"quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume"} {
			known[kind] = func(v *volume, _ *yaml.Node) error { v.kind = kind; return nil }
		}
		err := readInto(r, n, known, &v)
		p.volumes[name] = v
		return err
	})
}

// volumeOf reads a volume with the keys of a ConfigMap or Secret.
func (r *reader) volumeOf(v *volume, n *yaml.Node, kind string) error {
	type item struct{ key, path, mode string }
	type source struct {
		name, mode string
		optional   bool
		items      []item
	}
	s := &source{}
	name, of := "name", r.referenced.configs
	if kind == "Secret" {
		name, of = "secretName", r.referenced.secrets
	}
	err := readInto(r, n, fields[*source]{
		name:          text(r, func(s *source) *string { return &s.name }),
		"optional":    truth(r, func(s *source) *bool { return &s.optional }),
		"defaultMode": func(s *source, n *yaml.Node) (err error) { s.mode, err = r.mode(n); return err },
		"items": func(s *source, n *yaml.Node) error {
			return r.list(n, func(_ int, n *yaml.Node) error {
				it := item{}
				err := readInto(r, n, fields[*item]{
					"key":  text(r, func(i *item) *string { return &i.key }),
					"path": text(r, func(i *item) *string { return &i.path }),
					"mode": func(i *item, n *yaml.Node) (err error) { i.mode, err = r.mode(n); return err },
				}, &it)
				if err == nil {
					err = fault.Within("path", jobtext.CheckInside(it.path))
				}
				s.items = append(s.items, it)
				return err
			})
		},
	}, s)
	if err != nil {
		return err
	}
	v.folder, v.files = true, map[string]file{}
	values, ok := of[s.name]
	if !ok {
		if s.optional {
			return nil
		}
		return r.Fault(n, "there is no "+kind+" "+fault.Quote(s.name)+" in the file",
			"put it into the same file, after a line ---")
	}
	if s.items == nil {
		for _, key := range slices.Sorted(maps.Keys(values)) {
			s.items = append(s.items, item{key: key, path: key})
		}
	}
	for _, it := range s.items {
		text, ok, err := r.from(of, kind, s.name, it.key, n)
		if !ok {
			return err
		}
		f := file{text: text, mode: it.mode}
		if f.mode == "" {
			f.mode = s.mode
		}
		if kind == "Secret" && text != "" {
			f.secret = secretVariable(s.name, it.key)
			f.text = ""
			if err := r.job.AddSecretValue(f.secret, text); err != nil {
				return fault.At(yamlfile.PositionOf(n), err)
			}
		}
		v.files[it.path] = f
	}
	return nil
}

var inNoVariable = regexp.MustCompile(`[^A-Za-z0-9]`)

// secretVariable returns the variable that passes a file of a Secret to its task.
func secretVariable(name, key string) string {
	s := inNoVariable.ReplaceAllLiteralString(name+"_"+key, "_")
	return "SECRET_" + strings.ToUpper(s[:min(len(s), 100)])
}

// mode reads the mode of a file, which may be 0644, 0o644 or, as in JSON, 420.
func (r *reader) mode(n *yaml.Node) (string, error) {
	s, err := r.Text(n)
	if err != nil {
		return "", err
	}
	base, digits := 10, s
	if rest, ok := strings.CutPrefix(s, "0"); ok && rest != "" {
		base, digits = 8, strings.TrimPrefix(rest, "o")
	}
	v, err := strconv.ParseUint(digits, base, 16)
	if err != nil || v > 0o777 {
		return "", r.Fault(n, fault.Quote(s)+" is not the mode of a file", "write 0644, or 420, which is the same")
	}
	return strconv.FormatUint(v, 8), nil
}

// mount is the path at which a container sees a volume.
type mount struct {
	name, path, sub string
	at              *yaml.Node
}

func (r *reader) mountVolumes(p *pod, n *yaml.Node) error {
	return r.list(n, func(_ int, n *yaml.Node) error {
		m := &mount{at: n}
		err := readInto(r, n, fields[*mount]{
			"name":      text(r, func(m *mount) *string { return &m.name }),
			"mountPath": text(r, func(m *mount) *string { return &m.path }),
			"subPath":   text(r, func(m *mount) *string { return &m.sub }),
		}.with(silentlyIgnored[*mount]("readOnly", "mountPropagation", "recursiveReadOnly")).
			with(unsupported[*mount](r, "is not supported", "write the path itself as subPath", "subPathExpr")), m)
		if err != nil {
			return err
		}
		if err := jobtext.CheckText(m.path); err != nil {
			return fault.Within("mountPath", fault.At(yamlfile.PositionOf(n), err))
		}
		v, ok := p.volumes[m.name]
		switch {
		case !ok:
			return fault.Within("name", r.Fault(n, "there is no volume "+fault.Quote(m.name)+" in the pod", ""))
		case v.kind != "":
			return r.Fault(n, "is a "+v.kind+", which exists only in a cluster",
				"keep the data in a bucket, and name it as inputs of the converted job")
		case m.path == "/dev/shm" && v.memory:
			return nil // it has half of the memory by default
		}
		if m.path = path.Join("/", m.path); m.path == "/" {
			return r.missing(n, "mountPath", "add the path in the container")
		}
		i := slices.IndexFunc(p.folders, func(o mount) bool {
			return o.path != m.path && (inside(o.path, m.path) || inside(m.path, o.path)) && o.name == m.name
		})
		if i >= 0 && len(v.files) == 0 {
			return fault.Within("mountPath", r.Fault(n, fmt.Sprintf(
				"mounts volume %s again, and one of %s and %s is inside the other",
				fault.Quote(
					m.name,
				),
				fault.Quote(p.folders[i].path),
				fault.Quote(m.path),
			), "mount it once, or at separate paths"))
		}
		r.mountFiles(p, m, v)
		return nil
	})
}

// inside reports whether a path is below a folder.
func inside(name, folder string) bool {
	return strings.HasPrefix(name, strings.TrimSuffix(folder, "/")+"/")
}

// mountFiles adds the folder or the files of a volume, unless an init container has added them.
func (r *reader) mountFiles(p *pod, m *mount, v volume) {
	if one, ok := v.files[m.sub]; ok && m.sub != "" {
		one.path = m.path
		p.addFile(one)
		return
	}
	if !slices.ContainsFunc(p.folders, func(o mount) bool { return o.path == m.path }) {
		p.folders = append(p.folders, *m)
	}
	for _, name := range slices.Sorted(maps.Keys(v.files)) {
		rest, ok := strings.CutPrefix(name, m.sub)
		if !ok {
			continue
		}
		f := v.files[name]
		f.path = path.Join(m.path, rest)
		p.addFile(f)
	}
}

// makeFolders writes the commands that make the folders of volumes. If a volume has several paths, because init
// containers mount it elsewhere or in part, it is a separate folder with links from all paths. A link hides the
// image's own folder at the path, like a mount.
func (p *pod) makeFolders(b *strings.Builder) {
	paths := map[string]int{}
	for _, m := range p.folders {
		if len(p.volumes[m.name].files) == 0 {
			paths[m.name]++
		}
	}
	folders := slices.Clone(p.folders)
	depth := func(m mount) int { return strings.Count(m.path, "/") }
	slices.SortStableFunc(folders, func(a, b mount) int { return depth(a) - depth(b) })
	for _, m := range folders { // outer folders first
		at := podtext.Quote(m.path)
		if paths[m.name] < 2 {
			fmt.Fprintf(b, "mkdir -p %s\n", at)
			continue
		}
		shared := `"${TMPDIR:-/tmp}"` + podtext.Quote(path.Join("/volumes", m.name, m.sub))
		fmt.Fprintf(b, "mkdir -p %s %s\n", shared, podtext.Quote(path.Dir(m.path)))
		fmt.Fprintf(b, "rm -rf %s\nln -s %s %s\n", at, shared, at)
	}
}

func (p *pod) addFile(f file) {
	if !slices.ContainsFunc(p.files, func(other file) bool { return other.path == f.path }) {
		p.files = append(p.files, f)
	}
}
