package record

import (
	"time"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Upload is the record of a multipart upload that an attempt has started, until it is completed or aborted. Uploads
// that remain when the attempt's machines are gone are aborted.
type Upload struct {
	URI    string    `json:"uri"`
	Upload string    `json:"upload"`
	At     time.Time `json:"at"`
	// Completing is the number of calls that have begun to complete it and have not reported the result. After a
	// crash, it is unknown whether the store has completed it.
	Completing int `json:"completing,omitempty"`
}

// UploadPrefix is the prefix of the sort keys of a cluster's uploads.
func UploadPrefix(cluster string) string { return "upload#" + cluster + "#" }

// UploadKey is the key of an Upload.
func UploadKey(cluster string, up Upload) store.Key {
	return store.Key{
		Partition: JobPart(ClusterJob(cluster)), Sort: UploadPrefix(cluster) + ShortHash(up.URI, up.Upload),
	}
}
