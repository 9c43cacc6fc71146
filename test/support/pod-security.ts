// The restricted Pod Security Standard, and what this project's pods keep beyond it: a few members alone are allowed where the
// standard forbids many.

import { isDeepStrictEqual } from 'node:util'
import type { IPodSpec } from 'kubernetes-models/v1/PodSpec'
import { probesOf } from './kubernetes-view.ts'

const CONTAINER = { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } }
const OF_POD = new Set(['runAsNonRoot', 'runAsUser', 'runAsGroup', 'fsGroup', 'fsGroupChangePolicy', 'seccompProfile'])
const OF_VOLUME = new Set(['name', 'configMap', 'emptyDir', 'projected', 'persistentVolumeClaim'])

/** What each says is so where it is true. */
export const RESTRICTED: Readonly<Record<string, (pod: IPodSpec) => boolean>> = {
  'a user who is not root': ({ securityContext }) =>
    securityContext?.runAsNonRoot === true && Number(securityContext.runAsUser) > 0,
  'a filter of system calls': ({ securityContext }) => securityContext?.seccompProfile?.type === 'RuntimeDefault',
  'no host process, sysctl, and profile of its own': ({ securityContext = {} }) =>
    Object.keys(securityContext).every((member) => OF_POD.has(member)),
  'containers with no privilege, capability and way to more, and a root that cannot be written': (pod) =>
    containersOf(pod).every(({ securityContext }) => isDeepStrictEqual(securityContext, CONTAINER)),
  'no namespace and no port of the host': (pod) =>
    !pod.hostNetwork &&
    !pod.hostPID &&
    !pod.hostIPC &&
    containersOf(pod).every(({ ports = [] }) => ports.every(({ hostPort }) => hostPort === undefined)),
  'probes of this pod alone': (pod) =>
    containersOf(pod).every((container) =>
      probesOf(container).every(({ httpGet, tcpSocket }) => !httpGet?.host && !tcpSocket?.host),
    ),
  'volumes of harmless kinds': ({ volumes = [] }) =>
    volumes.every((volume) => Object.keys(volume).every((member) => OF_VOLUME.has(member))),
  'no token for the API, and no variables named after Services': (pod) =>
    pod.automountServiceAccountToken === false && pod.enableServiceLinks === false,
}

function containersOf(pod: IPodSpec): IPodSpec['containers'] {
  return [...pod.containers, ...(pod.initContainers ?? [])]
}
