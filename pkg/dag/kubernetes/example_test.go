package kubernetes_test

import (
	"fmt"

	"github.com/tradewind-broker/tradewind/pkg/dag/kubernetes"
)

func ExampleParse() {
	job, err := kubernetes.Parse("pi.yaml", []byte(`apiVersion: batch/v1
kind: Job
metadata: {name: pi}
spec:
  backoffLimit: 2
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: pi
          image: perl:5.34
          command: [perl, -Mbignum=bpi, -wle, print bpi(200)]
          resources: {requests: {cpu: 500m}}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	t := job.Tasks[0]
	fmt.Println(t.Name, t.Resources[0].Image, t.Resources[0].CPUs.Min, t.Retries)
	// Output: pi docker:perl:5.34 0.5 2
}
