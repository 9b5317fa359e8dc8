package broker

import "sync"

// blobs keeps those read last. They never change, so what is kept is never wrong.
type blobs struct {
	mu      sync.Mutex
	entries map[blobKey]*blobEntry
	clock   uint64
	bytes   int
	limit   int
}

type blobKey struct {
	job, name, token string
	version          int
}

// in is what a blob of a job is kept by.
func (b Blob) in(job string) blobKey {
	return blobKey{job: job, name: b.Name, token: b.Token, version: b.Version}
}

type blobEntry struct {
	value any
	bytes int
	used  uint64
}

func newBlobs(limit int) *blobs {
	return &blobs{entries: map[blobKey]*blobEntry{}, limit: limit}
}

func (c *blobs) get(k blobKey) (any, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[k]
	if !ok {
		return nil, false
	}
	c.clock++
	e.used = c.clock
	return e.value, true
}

// put keeps a value and drops those used least recently while there are too many bytes.
func (c *blobs) put(k blobKey, value any, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock++
	if old, ok := c.entries[k]; ok {
		c.bytes -= old.bytes
	}
	c.entries[k] = &blobEntry{value: value, bytes: size, used: c.clock}
	c.bytes += size
	for c.bytes > c.limit && len(c.entries) > 1 {
		var oldest blobKey
		best := c.clock + 1
		for key, e := range c.entries {
			if e.used < best {
				oldest, best = key, e.used
			}
		}
		c.bytes -= c.entries[oldest].bytes
		delete(c.entries, oldest)
	}
}
