{{- define "cutover.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "cutover.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "cutover.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "cutover.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "cutover.selector" -}}
app.kubernetes.io/name: {{ include "cutover.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: reconciler
{{- end -}}

{{- define "cutover.labels" -}}
app.kubernetes.io/name: {{ include "cutover.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "cutover.serviceAccount" -}}
{{- default (include "cutover.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "cutover.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default (printf "v%s" .Chart.AppVersion) .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "cutover.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "cutover.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* What must be set, said before anything is installed. */}}
{{- define "cutover.validate" -}}
{{- if .Values.reconciler.enabled -}}
{{- if not .Values.repo.url -}}{{- fail "repo.url is missing: the repository with the desired state" -}}{{- end -}}
{{- if regexMatch "://[^/]*:[^/]*@" .Values.repo.url -}}
{{- fail "repo.url holds a password: put it into a Secret, and name that under git.https" -}}
{{- end -}}
{{- if not (or .Values.karmada.kubeconfig.secret .Values.karmada.inCluster) -}}
{{- fail "karmada.kubeconfig.secret is missing: a Secret with the kubeconfig of the Karmada API server" -}}
{{- end -}}
{{- if and .Values.karmada.kubeconfig.secret .Values.karmada.inCluster -}}
{{- fail "set karmada.kubeconfig.secret or karmada.inCluster, not both" -}}
{{- end -}}
{{- if and .Values.git.https.secret .Values.git.ssh.secret -}}
{{- fail "set git.https.secret or git.ssh.secret, not both" -}}
{{- end -}}
{{- if and .Values.webhook.enabled (not .Values.webhook.secret) -}}
{{- fail "webhook.secret is missing: a Secret with what the Git host signs with" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.install.enabled (not .Values.install.kubeconfig.secret) -}}
{{- fail "install.kubeconfig.secret is missing: a Secret with the kubeconfig of who may install CRDs" -}}
{{- end -}}
{{- end -}}
