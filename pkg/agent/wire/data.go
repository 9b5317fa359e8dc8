package wire

import "github.com/tradewind-broker/tradewind/pkg/grant"

// Paths by which an agent moves data. It has no rights on any store: what its attempt may read and write, it asks the
// broker for, object by object, and for as long as the attempt lasts. Beside what holds for every path, they answer 404
// where there is no such bucket, 409 where there is no such upload, and 422 where the attempt may not, or the broker
// cannot; asking again does not help then.
const (
	PathGrants  = "/v1/agent/grants"  // POST Wants -> 200 Granted
	PathList    = "/v1/agent/list"    // POST Listing -> 200 grant.Page
	PathUploads = "/v1/agent/uploads" // POST Upload -> 200 Begun
	PathPrune   = "/v1/agent/prune"   // POST Pruning -> 204; removes checkpoints that newer ones have replaced
	PathMounts  = "/v1/agent/mounts"  // POST Mounting -> 200 Mounted; credentials for what the task mounts
)

// MaxWants is how many grants are asked for at once.
const MaxWants = 500

// Wants asks for grants. How long they last is the broker's matter.
type Wants struct {
	Attempt string       `json:"attempt"`
	Wants   []grant.Want `json:"wants"`
}

// Granted are the grants in the order of the wants.
type Granted struct {
	Grants []grant.Grant `json:"grants"`
}

// Listing asks for a page of what lies below a prefix.
type Listing struct {
	Attempt string `json:"attempt"`
	Prefix  string `json:"prefix"`
	After   string `json:"after,omitempty"`
}

// UploadStep is what is to happen to a multipart upload.
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
	Upload  string           `json:"upload,omitempty"` // but to begin one
	Parts   []grant.Uploaded `json:"parts,omitempty"`  // to complete it
}

// Begun names the upload.
type Begun struct {
	Upload string `json:"upload"`
}

// Pruning names the attempt whose task's old checkpoints are to go.
type Pruning struct {
	Attempt string `json:"attempt"`
}

// MaxLoans is for how many prefixes credentials are asked at once.
const MaxLoans = 100

// Mounting asks for credentials for prefixes that the attempt's task mounts. It is asked again before they end.
type Mounting struct {
	Attempt string `json:"attempt"`
	Loans   []Loan `json:"loans"`
	// Program asks for the program that mounts, by the machine's architecture as Go names it; empty does not.
	Program string `json:"program,omitempty"`
}

// Loan is a prefix for which credentials are asked.
type Loan struct {
	Prefix string `json:"prefix"`
	Write  bool   `json:"write,omitempty"`
}

// Mounted are the credentials in the order of the loans.
type Mounted struct {
	Credentials []grant.Credentials `json:"credentials"`
	Program     *Program            `json:"program,omitempty"` // where it was asked for and the broker knows one
}

// Program is where a program can be fetched, without a token, and what it must be.
type Program struct {
	URL    string `json:"url"`
	SHA256 string `json:"sha256"` // hexadecimal
}
