// Package grant lets a machine read and write exactly the objects of its attempt. The broker signs URLs that expire, in
// batches, and the machine uses them with an HTTP client. So a machine has no key, no cloud SDK and no right to list,
// and a leaked URL becomes useless by itself.
//
// A Store is one cloud. Its driver is a sub-package (s3grant, gcsgrant, azgrant, filegrant), so that a program links
// only the drivers it uses. A Mux finds the store of a URI. A Scope rejects what an attempt may not access, before any
// driver is called:
//
//	stores := grant.Mux{"s3": s3grant.New(client, s3grant.Options{}), "s3://in-tokyo": tokyo, "file": local}
//	scope := grant.Scope{Read: []string{"s3://in/data"}, Write: []string{"s3://out/job-7/3/"}}
//	grants, err := scope.Over(stores).Sign(ctx,
//		grant.Want{Op: grant.Get, URI: "s3://in/data/a.csv", For: time.Hour},
//		grant.Want{Op: grant.Put, URI: "s3://out/job-7/3/log", For: time.Hour, Size: 512})
//
// # Multipart uploads
//
// Only parts are granted. On every cloud, the broker begins an upload, signs its parts, and completes or aborts it:
//
//   - If a machine began an upload and died before reporting it, the upload could not be found and ended. The broker
//     knows the uploads it began, and aborts them when the attempt has finished.
//   - A grant to begin uploads could be used any number of times until it expires, and each upload would cost money.
//   - The list of parts is known only at the end, so the broker would be called again anyway. By completing
//     the upload itself, the broker also checks that the attempt is still the current one.
//   - The agent needs neither S3's nor Azure's XML. It only returns the ETag header of each part.
//
// This costs two calls to the broker for an object of more than one part. Uploads that were neither completed nor
// aborted are removed by a rule of the bucket (S3 and Google: AbortIncompleteMultipartUpload), after a week (Azure), or
// by filegrant's Sweep.
//
// Only the broker lists and removes objects; no URL is granted for either. Not every cloud can limit a list to the
// objects that an attempt may read, and a removed object cannot be restored.
//
// # What a cloud binds
//
// All clouds bind the object, the expiry and reading or writing. S3, Google and filegrant also bind the method, the
// length of the body, the checksum, a range, and the upload and number of a part. Azure binds the last three only with
// a user delegation key, and never the length. For Azure, and for Google's parts, the MD5 bounds the body (see azgrant
// and gcsgrant). A grant may be used several times, so that a request can be repeated if its answer was lost.
package grant
