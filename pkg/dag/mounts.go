package dag

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/fault"
)

// Mount is how a task sees an input.
type Mount string

// The ways to see an input.
const (
	// Copied: it is copied to the machine before the task starts.
	Copied Mount = ""
	// MountRead: it is read when the task reads it, and cannot be written.
	MountRead Mount = "read"
	// MountWrite is MountRead, and a file that the task writes is uploaded when it is closed.
	MountWrite Mount = "write"
	// MountCached: what is read is kept on the machine's disk, and what is written is uploaded in the background.
	MountCached Mount = "cached"
)

// Writes says whether what a task writes there goes to where the input lies.
func (m Mount) Writes() bool { return m == MountWrite || m == MountCached }

// ParseMount reads the word of the native form: true, false, write or cached.
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
	return "", fault.New(fault.Quote(s)+" is no way to mount",
		"true to read, write to read and write, cached to do both through a cache on disk, or false to copy")
}

// UnmarshalJSON takes the truth value that mounts were stored as before there were several.
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

// Mounts says whether the task mounts anything.
func (t *Task) Mounts() bool {
	return slices.ContainsFunc(t.Inputs, func(in Input) bool { return in.Mount != Copied })
}

// Bucket says whose an input's bucket is.
type Bucket string

// Whose a bucket is.
const (
	// BucketThere: the user's; it must be there.
	BucketThere Bucket = ""
	// BucketMade: it is made where there is none, and stays.
	BucketMade Bucket = "make"
	// BucketTemporary: it is made where there is none, and one that was made is removed when the job has ended.
	BucketTemporary Bucket = "temporary"
)

// Check sees whether b is one of the words.
func (b Bucket) Check() error { return fault.CheckWord("bucket", b, BucketMade, BucketTemporary) }

// CheckMount checks how an input is mounted, and what is asked of its bucket, when all of its fields are known.
func (in *Input) CheckMount() error {
	switch in.Mount {
	case Copied, MountRead, MountWrite, MountCached:
	default:
		return fault.Within("mount", fault.New(fault.Quote(string(in.Mount))+" is no way to mount", ""))
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
			return fault.Within("path", fault.New(why, "give the mount a folder of its own, such as data"))
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
	if in.Bucket != BucketThere && !inBucket {
		return fault.Within("bucket", fault.New(fault.Quote(in.URI)+" is in no bucket", "s3://NAME"))
	}
	if in.Source == "" {
		return nil
	}
	if !inBucket {
		return fault.Within("source", fault.New("is uploaded to a bucket, and "+fault.Quote(in.URI)+" is in none",
			"leave source out and name the folder as the uri"))
	}
	if s, _, some := strings.Cut(in.Source, "://"); some && s != "pack" {
		return fault.Within("source", fault.New(fault.Quote(in.Source)+" is no local path",
			"what is uploaded first is a folder of this computer"))
	}
	return fault.Within("source", CheckURI(in.Source))
}

// badMountPoint says why nothing can be mounted at a path.
func badMountPoint(p string) string {
	if p == "" {
		return "" // below $TRADEWIND_INPUTS
	}
	switch path.Clean(p) {
	case ".":
		return "would be mounted over the task's working folder"
	case "/", "~":
		return fault.Quote(p) + " cannot be a mount"
	}
	return ""
}

// InputPlaces are where a task sees its inputs.
type InputPlaces map[string]placed

// placed is an input in its place.
type placed struct {
	uri     string
	mounted bool
}

// Take puts an input where it is to lie, and refuses it if another lies there, or if one of the two is mounted and the
// other would lie in it.
func (p InputPlaces) Take(in *Input) error {
	place := in.place()
	const hint = "give each a path of its own"
	if first, taken := p[place]; taken {
		return fault.New("would lie where "+fault.Quote(first.uri)+" does, in "+place, hint)
	}
	for dir := path.Dir(place); dir != "." && dir != "/" && dir != "~"; dir = path.Dir(dir) {
		if outer, taken := p[dir]; taken && (outer.mounted || in.Mount != Copied) {
			return fault.New(fmt.Sprintf("would lie in %s, where %s does", dir, fault.Quote(outer.uri)), hint)
		}
	}
	if in.Mount != Copied {
		for _, other := range slices.Sorted(maps.Keys(p)) {
			if strings.HasPrefix(other, place+"/") {
				return fault.New(
					fmt.Sprintf("would be mounted over %s, where %s lies", other, fault.Quote(p[other].uri)), hint)
			}
		}
	}
	p[place] = placed{in.URI, in.Mount != Copied}
	return nil
}

// place is where a task sees an input: at its path, or else below $TRADEWIND_INPUTS by its own name, as the agent
// puts it.
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

// checkMount says why an input cannot be mounted on the machines of the task, or beside what else it keeps.
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
		return fault.Within("path", fault.New("is where the task keeps its checkpoints, in "+ckpt,
			"checkpoints are saved by themselves: give them a folder beside the mount"))
	}
	return nil
}
