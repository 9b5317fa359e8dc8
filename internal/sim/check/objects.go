package check

import (
	"cmp"
	"iter"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
)

// For the data that attempts move, continuously:
const (
	// InvGrant: an attempt that had finished before its request gets no grant.
	InvGrant = "a finished attempt gets no grants"
	// InvScope: an attempt writes only its own objects: its node's outputs and its checkpoints.
	InvScope = "an attempt writes its own objects"
	// InvObject: only complete objects are read.
	InvObject = "no incomplete object is read"
	// InvPlace: an attempt writes to the store of the place where it runs, if there is one.
	InvPlace = "an attempt keeps its data where it runs"
	// InvUpload: a multipart upload is completed only at its agent's request, and its parts are deleted with the
	// attempt's machines.
	InvUpload = "no upload outlives its attempt"
)

// At returns the URI of an object that is given as a URI or as a path below the store of an attempt.
func At(store, where string) string {
	if strings.Contains(where, "://") {
		return where
	}
	return store + "/" + where
}

// Upload is an open multipart upload.
type Upload struct {
	URI, Name string
	Cluster   string // cluster that has sent a part; empty before
	Parts     int
}

// Objects is the interface to the data store that the checker needs.
type Objects interface {
	// Uploads returns the open uploads.
	Uploads() iter.Seq[*Upload]
	// Objects returns the URIs of the stored objects, in any order.
	Objects() iter.Seq[string]
}

// owns reports whether a node of an attempt may write an object.
func owns(attempt string, rank int, uri string) bool {
	cluster := url.PathEscape(attempt)
	dir := path.Dir(uri) // …/out/CLUSTER/RANK or …/ckpt/000001-CLUSTER
	if path.Base(path.Dir(path.Dir(dir))) == "out" {
		return path.Base(dir) == strconv.Itoa(rank) && path.Base(path.Dir(dir)) == cluster
	}
	_, of, _ := strings.Cut(path.Base(dir), "-")
	return path.Base(path.Dir(dir)) == "ckpt" && of == cluster && rank == 0
}

// Granted checks the grants that an attempt got by one call, which started in a step. what is "read" or "write".
func (c *Checker) Granted(m *Machine, attempt, what, uri string, began int) {
	if c.finished(m, began) {
		c.Violatef(InvGrant, "%s of %s had finished but is granted to %s %s", m.ID, m.Cluster, what, uri)
	}
	if what == "write" && !owns(attempt, m.Rank, uri) {
		c.Violatef(InvScope, "rank %d of %s is granted to write %s", m.Rank, attempt, uri)
	}
}

// Finished reports whether the attempt of a machine has finished.
func (c *Checker) Finished(m *Machine) bool { return c.finished(m, c.Steps+1) }

// finished reports whether an attempt had finished before a step.
func (c *Checker) finished(m *Machine, began int) bool {
	s := c.Jobs[record.ClusterJob(m.Cluster)]
	if s == nil {
		return true
	}
	at, closed := s.closed[m.Cluster]
	return closed && at.step < began
}

// Wrote checks an object that a machine has stored.
func (c *Checker) Wrote(m *Machine, uri string) {
	store := c.cfg.Stores.URLs[m.Offer.Cloud+":"+m.Offer.Region]
	if store != "" && !strings.HasPrefix(uri, store+"/") {
		c.Violatef(InvPlace, "%s of %s, in %s, has written %s", m.ID, m.Cluster, m.Offer.Region, uri)
	}
	if !owns(cmp.Or(m.Member, m.Cluster), m.Rank, uri) {
		c.Violatef(InvScope, "rank %d of %s has written %s", m.Rank, m.Cluster, uri)
	}
}

// Absent is called when an object that an agent should read does not exist.
func (c *Checker) Absent(m *Machine, uri string) {
	c.Violatef(InvObject, "%s of %s reads %s, which was never completed", m.ID, m.Cluster, uri)
}

// Denied is called when an agent has sent all parts and then learns that the upload does not exist, by a call that
// started in a step. That is correct only if its attempt has finished.
func (c *Checker) Denied(m *Machine, uri string, began int) {
	s := c.Jobs[record.ClusterJob(m.Cluster)]
	if _, closed := s.closed[m.Cluster]; !closed {
		c.Violatef(InvUpload, "%s of %s has sent all parts of %s, but the upload does not exist", m.ID,
			m.Cluster, uri)
	}
}

// checkUploads checks that parts of uploads are deleted with the machines. An upload without parts uses no storage.
func (c *Checker) checkUploads() {
	for up := range c.Data.Uploads() {
		if up.Parts == 0 {
			continue
		}
		s := c.Jobs[record.ClusterJob(up.Cluster)]
		if at := s.released[up.Cluster]; !at.IsZero() && at.Before(c.Now) {
			c.Violatef(InvUpload, "%s of %s has %d parts, but the machines of %s ended %v ago", up.Name, up.URI,
				up.Parts, up.Cluster, c.Now.Sub(at))
		}
	}
}
