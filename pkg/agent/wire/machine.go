package wire

// Proof is what a machine's cloud says of it, in the cloud's own form: on AWS the instance identity document, signed as
// PKCS7 with RSA-2048; on Google an identity token for the broker's address; on Azure the attested document.
type Proof struct {
	Cloud    string `json:"cloud"`    // aws, gcp, azure
	Document string `json:"document"` // as the metadata service gives it
}

// MaxProof is the most bytes of a proof's document.
const MaxProof = 16 << 10

// Machine is what a proof proves. A field is empty where the cloud does not say it.
type Machine struct {
	Cloud   string
	Account string // account, project or subscription
	Region  string
	ID      string // the cloud's own
	// Fault is why a proof that was sent proves nothing; the other fields are then empty.
	Fault string
}
