package check

import (
	"iter"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/broker/record"
)

// Of the data that attempts move, all the time:
const (
	// InvGrant: nothing is granted to an attempt that was over before it asked.
	InvGrant = "an attempt that is over is granted nothing"
	// InvScope: what an attempt writes is its own: its node's outputs and its checkpoints.
	InvScope = "an attempt writes its own objects"
	// InvObject: what is read was completed.
	InvObject = "nobody reads half an object"
	// InvPlace: what an attempt writes lies in the store of the place where it runs, if there is one.
	InvPlace = "an attempt keeps its data where it runs"
	// InvUpload: what is uploaded in parts is completed when its agent says so, and what is left of it goes with the
	// attempt's machines.
	InvUpload = "no upload outlives its attempt"
)

// At is where something lies that an agent is told of: by its URI, or below the store of the agent's attempt.
func At(store, where string) string {
	if strings.Contains(where, "://") {
		return where
	}
	return store + "/" + where
}

// Upload is a multipart upload that is open.
type Upload struct {
	URI, Name string
	Cluster   string // that has sent a part; empty before
	Parts     int
}

// Objects is what the checker asks of the store of data.
type Objects interface {
	// Uploads are those that are open.
	Uploads() iter.Seq[*Upload]
}

// owns says whether an object is one that a node of an attempt may write.
func owns(m *Machine, uri string) bool {
	cluster := url.PathEscape(m.Cluster)
	dir := path.Dir(uri) // …/out/CLUSTER/RANK or …/ckpt/000001-CLUSTER
	if path.Base(path.Dir(path.Dir(dir))) == "out" {
		return path.Base(dir) == strconv.Itoa(m.Rank) && path.Base(path.Dir(dir)) == cluster
	}
	_, of, _ := strings.Cut(path.Base(dir), "-")
	return path.Base(path.Dir(dir)) == "ckpt" && of == cluster && m.Rank == 0
}

// Granted checks what an agent was granted, to read or to write, by a call that began in a step.
func (c *Checker) Granted(m *Machine, what, uri string, began int) {
	if c.over(m, began) {
		c.Violatef(InvGrant, "%s of %s was over and is granted to %s %s", m.ID, m.Cluster, what, uri)
	}
	if what == "write" && !owns(m, uri) {
		c.Violatef(InvScope, "rank %d of %s is granted to write %s", m.Rank, m.Cluster, uri)
	}
}

// Over says whether the attempt of a machine is over.
func (c *Checker) Over(m *Machine) bool { return c.over(m, c.Steps+1) }

// over says whether an attempt was over before a step.
func (c *Checker) over(m *Machine, began int) bool {
	s := c.Jobs[record.ClusterJob(m.Cluster)]
	if s == nil {
		return true
	}
	at, closed := s.closed[m.Cluster]
	return closed && at.step < began
}

// Wrote checks what a machine has stored.
func (c *Checker) Wrote(m *Machine, uri string) {
	store := c.cfg.Stores.URLs[m.Offer.Cloud+":"+m.Offer.Region]
	if store != "" && !strings.HasPrefix(uri, store+"/") {
		c.Violatef(InvPlace, "%s of %s, in %s, has written %s", m.ID, m.Cluster, m.Offer.Region, uri)
	}
	if !owns(m, uri) {
		c.Violatef(InvScope, "rank %d of %s has written %s", m.Rank, m.Cluster, uri)
	}
}

// Absent is called when what an agent was told to read is not there.
func (c *Checker) Absent(m *Machine, uri string) {
	c.Violatef(InvObject, "%s of %s reads %s, which was never completed", m.ID, m.Cluster, uri)
}

// Denied is called when an agent that has sent all parts is told that there is no such upload, by a call that began in
// a step. Once its attempt is over that is as it should be.
func (c *Checker) Denied(m *Machine, uri string, began int) {
	s := c.Jobs[record.ClusterJob(m.Cluster)]
	if _, closed := s.closed[m.Cluster]; !closed {
		c.Violatef(InvUpload, "%s of %s has sent all parts of %s and is told that there is no such upload", m.ID,
			m.Cluster, uri)
	}
}

// checkUploads checks that what is left of uploads has gone with the machines. One without parts holds nothing.
func (c *Checker) checkUploads() {
	for up := range c.Data.Uploads() {
		if up.Parts == 0 {
			continue
		}
		s := c.Jobs[record.ClusterJob(up.Cluster)]
		if at := s.released[up.Cluster]; !at.IsZero() && at.Before(c.Now) {
			c.Violatef(InvUpload, "%s of %s has %d parts, and the machines of %s were gone %v ago", up.Name, up.URI,
				up.Parts, up.Cluster, c.Now.Sub(at))
		}
	}
}
