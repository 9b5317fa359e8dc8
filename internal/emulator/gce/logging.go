package gce

import (
	"encoding/json"

	logging "google.golang.org/api/logging/v2"
)

// sinkWriter is the identity of the sinks that were made with a unique writer identity. Without one, the writer is
// Cloud Logging's own, which the emulator does not have.
const sinkWriter = "serviceAccount:service-100000000001@gcp-sa-logging.iam.gserviceaccount.com"

func (c *Cloud) getSink(r *call) (any, *Fault) { return one(c.identity.sinks, r) }

func (c *Cloud) createSink(r *call) (any, *Fault) {
	var in logging.LogSink
	if err := json.Unmarshal(r.body, &in); err != nil || in.Name == "" || in.Destination == "" {
		return nil, invalid("Sink: %v", err)
	}
	name := r.name() + "/" + in.Name
	if c.identity.sinks[name] != nil {
		return nil, taken(name)
	}
	if r.URL.Query().Get("uniqueWriterIdentity") == "true" {
		in.WriterIdentity = sinkWriter
	}
	c.identity.sinks[name] = &in
	return &in, nil
}

func (c *Cloud) deleteSink(r *call) (any, *Fault) {
	if _, f := c.getSink(r); f != nil {
		return nil, f
	}
	delete(c.identity.sinks, r.name())
	return &logging.Empty{}, nil
}
