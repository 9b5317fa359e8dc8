package stack

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"

	"github.com/tradewind-broker/tradewind/events"
)

// prefixPacks is where the code and files that jobs bring along lie, in pieces.
const prefixPacks = "packs/"

// packDays is how long a piece stays after it was written. It is Keep of internal/pack/depot, which counts on it.
const packDays = 30

func packRule() *awss3.LifecycleRule {
	return &awss3.LifecycleRule{
		Id: jsii.String("packs"), Prefix: jsii.String(prefixPacks), Expiration: days(packDays),
		NoncurrentVersionExpiration: days(1), // the same bytes, written anew
	}
}

// packs is signing uploads of pieces, which whoever has the URL then does with the API's rights; seeing whether a pack
// is complete; and writing anew what a job needs for long. Machines read pieces and write none.
func (d *deployment) packs() {
	work := *d.work.BucketArn()
	pieces := work + "/" + prefixPacks + "*"
	for fn, may := range map[string][]string{
		fnAPI: {"s3:GetObject", "s3:PutObject"}, events.FnSubmit: {"s3:GetObject"},
		events.FnRefresh: {"s3:GetObject", "s3:PutObject"},
	} {
		d.grant(fn, "Packs", may, pieces)
		// Without it S3 says of what is not there that it is forbidden.
		d.grant(fn, "PacksMissing", []string{"s3:ListBucket"}, work)
	}
}
