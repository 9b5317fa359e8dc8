package record

import (
	"time"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Notified is the record of one recipient's notification of a job's end: whether it was sent.
type Notified struct {
	Recipient string    `json:"recipient"`
	At        time.Time `json:"at"`    // of the last try
	Tries     int       `json:"tries"` // so far
	// Failure is the reason why the last try failed. It is empty if the recipient was notified.
	Failure string `json:"failure,omitempty"`
}

// NotifiedPrefix is the prefix of the sort keys of a job's Notified.
const NotifiedPrefix = "notified#"

// NotifiedKey is the key of a Notified.
func NotifiedKey(job, recipient string) store.Key {
	return store.Key{Partition: JobPart(job), Sort: NotifiedPrefix + ShortHash(recipient)}
}
