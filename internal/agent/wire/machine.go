package wire

// Proof is a machine's identity as attested by its cloud, in the cloud's own format: on AWS the instance identity
// document, signed as PKCS7 with RSA-2048; on Google an identity token for the broker's address; on Azure the attested
// document.
type Proof struct {
	Cloud    string `json:"cloud"`    // aws, gcp, azure
	Document string `json:"document"` // as returned by the metadata service
}

// MaxProof is the maximum size of a proof's document, in bytes.
const MaxProof = 16 << 10

// Machine is what a proof proves. A field is empty if the cloud does not attest it.
type Machine struct {
	Cloud   string
	Account string // account, project or subscription
	Region  string
	ID      string // the cloud's ID of the machine
	// Fault is why a proof proves nothing; the other fields are then empty.
	Fault string
}
