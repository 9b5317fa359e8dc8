package gcp

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/cloud/push"
)

// Message is a Pub/Sub message, pulled or pushed.
type Message struct {
	Data       []byte            `json:"data"` // base64
	Attributes map[string]string `json:"attributes"`
}

// DecodePush reads the body of a request with which Pub/Sub pushes a message (Pub/Sub documentation, "Receive push
// messages"). The server of the endpoint must have checked the request's token. It fails with ErrNotice.
func DecodePush(body []byte) (Message, error) {
	var in struct {
		Message Message `json:"message"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Message{}, fmt.Errorf("%w: %w", ErrNotice, err)
	}
	return in.Message, nil
}

// The attribute for the kind of a bucket's notification, and its value for a new object (Cloud Storage documentation,
// "Pub/Sub notifications for Cloud Storage").
const (
	attrEvent = "eventType"
	finalized = "OBJECT_FINALIZE"
)

// FromBucket reports whether a message is a bucket's notification about an object.
func (m Message) FromBucket() bool { return m.Attributes[attrEvent] != "" }

// Object reads a bucket's notification: an attribute names the event, and the data is the object's resource (payload
// format JSON_API_V1). relevant is true only for a new object. It fails with ErrNotice.
func (m Message) Object() (o push.Object, relevant bool, err error) {
	if m.Attributes[attrEvent] != finalized {
		return o, false, nil
	}
	var in struct {
		Name       string `json:"name"`
		Bucket     string `json:"bucket"`
		Generation string `json:"generation"`
		Size       int64  `json:"size,string"`
		MD5        string `json:"md5Hash"` // a composite object has none
		CRC        string `json:"crc32c"`
	}
	if err := json.Unmarshal(m.Data, &in); err != nil {
		return o, false, fmt.Errorf("%w: object: %w", ErrNotice, err)
	}
	o = push.Object{Bucket: "gs://" + in.Bucket, Key: in.Name, Version: in.Generation, Size: in.Size}
	switch {
	case in.MD5 != "":
		o.ETag = "md5:" + in.MD5
	case in.CRC != "":
		o.ETag = fmt.Sprintf("crc32c:%s/%d", in.CRC, in.Size)
	}
	if in.Bucket == "" || strings.Contains(in.Bucket, "/") || in.Name == "" || in.Generation == "" || o.ETag == "" {
		return o, false, fmt.Errorf("%w: an object without bucket, name, generation or digest", ErrNotice)
	}
	return o, true, nil
}
