package wire

import "github.com/tradewind-broker/tradewind/pkg/grant"

// Paths by which an agent moves data. An agent has no rights on any store. It asks the broker, object by object, for
// grants for what its attempt may read and write, and the grants last as long as the attempt. In addition to the
// status codes that hold for every path, these paths answer 404 if the bucket is missing, 409 if the upload is
// missing, and 422 if the attempt has no permission or the broker cannot do it; a retry does not help then.
const (
	PathGrants  = "/v1/agent/grants"  // POST Wants -> 200 Granted
	PathList    = "/v1/agent/list"    // POST Listing -> 200 grant.Page
	PathUploads = "/v1/agent/uploads" // POST Upload -> 200 Begun
	PathPrune   = "/v1/agent/prune"   // POST Pruning -> 204; removes checkpoints that have been replaced by newer ones
	PathMounts  = "/v1/agent/mounts"  // POST Mounting -> 200 Mounted; credentials for the task's mounts
)

// MaxWants is the maximum number of grants in one request.
const MaxWants = 500

// Wants is a request for grants. The broker decides how long they last.
type Wants struct {
	Attempt string       `json:"attempt"`
	Wants   []grant.Want `json:"wants"`
}

// Granted are the grants in the order of the wants.
type Granted struct {
	Grants []grant.Grant `json:"grants"`
}

// Listing is a request for a page of the objects below a prefix.
type Listing struct {
	Attempt string `json:"attempt"`
	Prefix  string `json:"prefix"`
	After   string `json:"after,omitempty"`
}

// UploadStep is a step of a multipart upload.
type UploadStep string

// The steps of a multipart upload. Completing or aborting one again does nothing.
const (
	UploadBegin    UploadStep = "begin"
	UploadComplete UploadStep = "complete"
	UploadAbort    UploadStep = "abort"
)

// Upload is a step of a multipart upload of one object.
type Upload struct {
	Attempt string           `json:"attempt"`
	Step    UploadStep       `json:"step"`
	URI     string           `json:"uri"`
	Upload  string           `json:"upload,omitempty"` // for every step except UploadBegin
	Parts   []grant.Uploaded `json:"parts,omitempty"`  // for UploadComplete
}

// UploadID is the ID of a new upload.
type UploadID struct {
	Upload string `json:"upload"`
}

// Pruning names the attempt whose task's old checkpoints should be removed.
type Pruning struct {
	Attempt string `json:"attempt"`
}

// MaxLoans is the maximum number of prefixes in one request for credentials.
const MaxLoans = 100

// Mounting is a request for credentials for the prefixes that the attempt's task mounts. The agent repeats it before
// they expire.
type Mounting struct {
	Attempt string `json:"attempt"`
	Loans   []Loan `json:"loans"`
	// Program is the machine's architecture (a GOARCH) if the agent also needs the program that mounts; otherwise
	// empty.
	Program string `json:"program,omitempty"`
}

// Loan is a prefix for which credentials are requested.
type Loan struct {
	Prefix string `json:"prefix"`
	Write  bool   `json:"write,omitempty"`
}

// Mounted are the credentials in the order of the loans.
type Mounted struct {
	Credentials []grant.Credentials `json:"credentials"`
	Program     *Program            `json:"program,omitempty"` // if it was requested and the broker knows one
}

// Program has the URL from which a program can be downloaded without a token, and its checksum.
type Program struct {
	URL    string `json:"url"`
	SHA256 string `json:"sha256"` // hexadecimal
}
