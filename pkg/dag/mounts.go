package dag

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// Mount states how a task accesses an input.
type Mount string

// The ways to access an input.
const (
	// Copied means that the input is copied to the machine before the task starts.
	Copied Mount = ""
	// MountRead means that data is fetched when the task reads it, and cannot be written.
	MountRead Mount = "read"
	// MountWrite is like MountRead, but writable: a file is uploaded when the task closes it.
	MountWrite Mount = "write"
	// MountCached means that read data is cached on the machine's disk, and written data is uploaded in
	// the background.
	MountCached Mount = "cached"
)

// Writes reports whether data that the task writes to a mount is saved in the input's bucket or
// folder.
func (m Mount) Writes() bool { return m == MountWrite || m == MountCached }

// ParseMount reads the value of the native format: true, false, write or cached.
func ParseMount(s string) (Mount, error) {
	switch strings.ToLower(s) {
	case "false", "no", "off":
		return Copied, nil
	case "true", "yes", "on", string(MountRead):
		return MountRead, nil
	case string(MountWrite):
		return MountWrite, nil
	case string(MountCached):
		return MountCached, nil
	}
	return "", fault.New(fault.Quote(s)+" is not a way to mount",
		"true to read, write to read and write, cached to do both through a cache on disk, or false to copy")
}

// UnmarshalJSON also accepts a boolean, the form in which mounts were stored when there was only one kind.
func (m *Mount) UnmarshalJSON(b []byte) error {
	var read bool
	if json.Unmarshal(b, &read) == nil {
		*m = Copied
		if read {
			*m = MountRead
		}
		return nil
	}
	var s string
	err := json.Unmarshal(b, &s)
	*m = Mount(s)
	return err
}

// Mounts reports whether the task mounts any input.
func (t *Task) Mounts() bool {
	return slices.ContainsFunc(t.Inputs, func(in Input) bool { return in.Mount != Copied })
}

// MakesBuckets reports whether the bucket of an input may have to be made before the task runs.
func (t *Task) MakesBuckets() bool {
	return slices.ContainsFunc(t.Inputs, func(in Input) bool { return in.Bucket != BucketExists })
}

// Bucket is the owner of an input's bucket: the user or the job.
type Bucket string

// The owners of buckets.
const (
	// BucketExists means that the bucket is the user's. It must exist.
	BucketExists Bucket = ""
	// BucketCreate means that the bucket is created if it does not exist, and kept.
	BucketCreate Bucket = "make"
	// BucketTemporary means that the bucket is created if it does not exist, and in that case deleted
	// when the job has finished.
	BucketTemporary Bucket = "temporary"
)

// Check returns an error if b is neither BucketCreate nor BucketTemporary.
func (b Bucket) Check() error { return fault.CheckWord("bucket", b, BucketCreate, BucketTemporary) }

// CheckMount checks the mount, bucket and source of an input. All of its fields must be set.
func (in *Input) CheckMount() error {
	switch in.Mount {
	case Copied, MountRead, MountWrite, MountCached:
	default:
		return fault.Within("mount", fault.New(fault.Quote(string(in.Mount))+" is not a way to mount", ""))
	}
	if in.Mount != Copied {
		if scheme, _, some := strings.Cut(in.URI, "://"); !some || scheme == "pack" {
			return fault.Within("mount", fault.New("a path of this computer cannot be mounted on a machine",
				"leave mount out to have it copied, or name a bucket, or file:///… for a folder of the machine itself"))
		}
		if u, err := url.Parse(in.URI); err != nil || u.RawQuery != "" || u.Fragment != "" {
			return fault.Within("uri",
				fault.New(fault.Quote(in.URI)+" cannot be mounted", "write ? and # as %3F and %23"))
		}
		if why := badMountPoint(in.Path); why != "" {
			return fault.Within("path", fault.New(why, "give the mount its own folder, such as data"))
		}
	}
	return in.validateBucket()
}

func (in *Input) validateBucket() error {
	if err := ifSet(in.Bucket, Bucket.Check); err != nil {
		return fault.Within("bucket", err)
	}
	scheme, _, some := strings.Cut(in.URI, "://")
	inBucket := some && scheme != "file" && scheme != "pack"
	if in.Bucket != BucketExists && !inBucket {
		return fault.Within("bucket", fault.New(fault.Quote(in.URI)+" is not in a bucket", "s3://NAME"))
	}
	if in.Source == "" {
		return nil
	}
	if !inBucket {
		return fault.Within("source", fault.New("is uploaded to a bucket, but "+fault.Quote(in.URI)+" is not in one",
			"leave source out and name the folder as the uri"))
	}
	if s, _, some := strings.Cut(in.Source, "://"); some && s != "pack" {
		return fault.Within("source", fault.New(fault.Quote(in.Source)+" is not a local path",
			"only a folder of this computer can be uploaded"))
	}
	return fault.Within("source", jobtext.CheckURI(in.Source))
}

// badMountPoint returns why nothing can be mounted at a path, or "" if it is a valid mount point.
func badMountPoint(p string) string {
	if p == "" {
		return "" // below $TRADEWIND_INPUTS
	}
	switch path.Clean(p) {
	case ".":
		return "would be mounted over the task's working folder"
	case "/", "~":
		return fault.Quote(p) + " cannot be a mount point"
	}
	return ""
}

// InputPlaces are the paths at which a task sees its inputs.
type InputPlaces struct {
	taken map[string]placedInput // by path
	paths []string               // sorted
}

// placedInput is an input that has a path.
type placedInput struct {
	uri     string
	mounted bool
}

// Add adds an input. It returns an error if another input has the same path, or if one of the two is mounted and
// contains the path of the other.
func (p *InputPlaces) Add(in *Input) error {
	place := in.place()
	const hint = "give each its own path"
	if first, taken := p.taken[place]; taken {
		return fault.New("has the same path as "+fault.Quote(first.uri)+", "+place, hint)
	}
	for dir := path.Dir(place); dir != "." && dir != "/" && dir != "~"; dir = path.Dir(dir) {
		if outer, taken := p.taken[dir]; taken && (outer.mounted || in.Mount != Copied) {
			return fault.New(fmt.Sprintf("would be inside %s, the path of %s", dir, fault.Quote(outer.uri)), hint)
		}
	}
	if in.Mount != Copied {
		if i, _ := slices.BinarySearch(p.paths, place+"/"); i < len(p.paths) &&
			strings.HasPrefix(p.paths[i], place+"/") {
			return fault.New(
				fmt.Sprintf("would hide %s, the path of %s", p.paths[i], fault.Quote(p.taken[p.paths[i]].uri)), hint)
		}
	}
	if p.taken == nil {
		p.taken = map[string]placedInput{}
	}
	p.taken[place] = placedInput{in.URI, in.Mount != Copied}
	i, _ := slices.BinarySearch(p.paths, place)
	p.paths = slices.Insert(p.paths, i, place)
	return nil
}

// place returns where a task sees an input: at its path, or else below $TRADEWIND_INPUTS with the input's own name,
// like in the agent.
func (in *Input) place() string {
	if in.Path != "" {
		return path.Clean(in.Path)
	}
	name := in.URI
	if u, err := url.Parse(in.URI); err == nil && u.Scheme != "" {
		if name = u.Path; name == "" || name == "/" {
			name = u.Host
		}
	}
	return "$TRADEWIND_INPUTS/" + path.Base(name)
}

// checkMount returns an error if an input cannot be mounted on the machines of the task, or overlaps its checkpoints.
func (t *Task) checkMount(in *Input) error {
	if in.Mount == Copied {
		return nil
	}
	unable := 0
	for i := range t.Resources {
		if abilities()[t.Resources[i].Cloud].noMounts {
			unable++
		}
	}
	if unable > 0 && unable == len(t.Resources) {
		return fault.Within("mount", fault.New("pods of a cluster cannot mount", "leave mount out to have it copied"))
	}
	if t.Checkpoint == nil || in.Path == "" {
		return nil
	}
	ckpt, place := path.Clean(t.Checkpoint.Path), in.place()
	if ckpt == "." {
		ckpt = "checkpoint"
	}
	if ckpt == place || strings.HasPrefix(ckpt, place+"/") || strings.HasPrefix(place, ckpt+"/") {
		return fault.Within("path", fault.New("overlaps the folder of the task's checkpoints, "+ckpt,
			"checkpoints are saved separately: give them a folder outside the mount"))
	}
	return nil
}
