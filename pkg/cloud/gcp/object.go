package gcp

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/cloud/push"
)

// Message is what Pub/Sub delivers, pulled or pushed.
type Message struct {
	Data       []byte            `json:"data"` // base64
	Attributes map[string]string `json:"attributes"`
}

// DecodePush reads the body of a request with which Pub/Sub pushes a message (Pub/Sub documentation, "Receive push
// messages"). Whoever serves the endpoint has checked the request's token before. It fails with ErrNotice.
func DecodePush(body []byte) (Message, error) {
	var in struct {
		Message Message `json:"message"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Message{}, fmt.Errorf("%w: %w", ErrNotice, err)
	}
	return in.Message, nil
}

// What a bucket's notification says of its kind (Cloud Storage documentation, "Pub/Sub notifications for Cloud
// Storage").
const (
	attrEvent = "eventType"
	finalized = "OBJECT_FINALIZE"
)

// FromBucket says that a message is what a bucket tells of its objects.
func (m Message) FromBucket() bool { return m.Attributes[attrEvent] != "" }

// Object reads what a bucket tells of an object: an attribute names the event, and the data is the object's resource
// (payload format JSON_API_V1). relevant is false for anything but a new object. It fails with ErrNotice.
func (m Message) Object() (o push.Object, relevant bool, err error) {
	if m.Attributes[attrEvent] != finalized {
		return o, false, nil
	}
	var in struct {
		Name       string `json:"name"`
		Bucket     string `json:"bucket"`
		Generation string `json:"generation"`
		Size       int64  `json:"size,string"`
		MD5        string `json:"md5Hash"` // an object that was composed of others has none
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
