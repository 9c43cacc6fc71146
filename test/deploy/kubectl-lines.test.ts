// What the docs say to kubectl names what is in the manifests: workloads, containers, Secrets, claims, labels and folders.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { beforeAll, expect, it } from 'vitest'
import { objectsOf, workloadsOf } from '../support/kubernetes-view.ts'
import { buildKustomization, type KubernetesObject, overlayWith } from '../support/kustomize.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const SHORT: Readonly<Record<string, string>> = {
  deploy: 'Deployment',
  deployment: 'Deployment',
  statefulset: 'StatefulSet',
  service: 'Service',
  hpa: 'HorizontalPodAutoscaler',
  cronjob: 'CronJob',
  job: 'Job',
}
/** Stand for what the reader has. */
const PLACEHOLDER = /^(POD|YOUR_.*|\$1|"\$1"|drain-\d+)$/

const docs = readdirSync(join(ROOT, 'docs')).filter((name) => name.endsWith('.md'))
/** Each as it stands, with its page: in a block or in a sentence. Lines that go on are one. */
const lines = ['README.md', ...docs.map((name) => `docs/${name}`)].flatMap((page) => {
  const text = readFileSync(join(ROOT, page), 'utf8').replaceAll(/\\\n\s*/g, ' ')
  const inBlocks = [...text.matchAll(/^ *```sh\n(.*?)^ *```$/gms)].flatMap(([, block]) => block.split('\n'))
  const inSentences = [...text.replaceAll(/^ *```.*?^ *```$/gms, '').matchAll(/`([^`]+)`/g)].map(([, code]) => code)
  return [...inBlocks, ...inSentences]
    .flatMap((line) => line.replace(/ {2,}#.*/s, '').split(/&&|;|\|/))
    .flatMap((line) => (/\bkubectl .*/s.exec(line) ?? []).map((found) => ({ page, words: found.split(/\s+/) })))
})

let objects: readonly KubernetesObject[]
beforeAll(async () => {
  const overlay = await overlayWith('production', ['spool'])
  const folders = ['deploy/overlays/production', 'deploy/overlays/local', 'deploy/monitoring', overlay]
  objects = (await Promise.all(folders.map((folder) => buildKustomization(folder)))).flat()
})

/** A job is made of a CronJob, under its name. */
const named = (kind: string): KubernetesObject[] => objectsOf(objects, kind === 'Job' ? 'CronJob' : kind)
const names = (kind: string): string[] => named(kind).map(({ metadata }) => metadata.name)

/** What a line names that is not there. */
function unknownIn(words: readonly string[]): string[] {
  const mistakes: string[] = []
  const hold = (what: string, name: string, known: readonly string[]): void => {
    if (!PLACEHOLDER.test(name) && !known.includes(name)) mistakes.push(`${what} ${name}`)
  }
  const after = (flag: string): string | undefined =>
    words.includes(flag) ? words[words.indexOf(flag) + 1] : undefined
  const own = words.slice(0, words.includes('--') ? words.indexOf('--') : undefined)
  const namespace = after('-n')
  if (namespace !== undefined) hold('namespace', namespace, names('Namespace'))
  for (const flag of ['-k', '-f']) {
    const path = own.includes(flag) ? after(flag) : undefined
    if (path !== undefined && path !== '-' && !PLACEHOLDER.test(path) && !existsSync(join(ROOT, path)))
      mistakes.push(`path ${path}`)
  }
  let container = own.includes('-c') ? after('-c') : undefined
  for (const [at, word] of own.entries()) {
    const [, short, name] = /^(?:--from=)?([a-z]+)\/([a-z][\w-]*)$/.exec(word) ?? []
    const kind = SHORT[short ?? ''] ?? SHORT[word]
    if (kind === undefined || ['-k', '-f'].includes(own[at - 1])) continue
    const given = name ?? own[at + 1]
    if (given === undefined || given.startsWith('-')) continue
    hold(kind, given, names(kind))
    if (container === undefined || !names(kind).includes(given)) continue
    const [{ pod }] = workloadsOf(named(kind).filter(({ metadata }) => metadata.name === given))
    const known = pod.containers.map((one) => one.name)
    hold(`container of ${given}:`, container, known)
    container = undefined
  }
  if (container !== undefined) mistakes.push(`container ${container} of nothing`)
  const secret = own.includes('secret') ? own[own.indexOf('secret') + (own.includes('generic') ? 2 : 1)] : undefined
  if (secret !== undefined) hold('secret', secret, secrets())
  const claim = own.includes('pvc') ? after('pvc') : undefined
  if (claim !== undefined) hold('claim', claim, claims())
  const label = own.includes('-l') ? after('-l') : undefined
  if (label !== undefined) hold('label', label, labels())
  return mistakes
}

/** Those that some object reads. */
function secrets(): string[] {
  const found = JSON.stringify(objects).matchAll(
    /"(?:secretName|secret(?:Ref)?":\{(?:"items":\[[^\]]*\],)?"name|secretKeyRef":\{[^}]*"name)":"([^"]+)"/g,
  )
  return [...found].map(([, name]) => name)
}

function claims(): string[] {
  return workloadsOf(objects).flatMap(({ name, replicas = 1, claims: ofPod }) =>
    ofPod.flatMap((claim) => Array.from({ length: replicas }, (_, at) => `${claim}-${name}-${at}`)),
  )
}

function labels(): string[] {
  return workloadsOf(objects).flatMap((one) => Object.entries(one.labels).map(([key, value]) => `${key}=${value}`))
}

it('names nothing that is not in the manifests', () => {
  expect(lines.length).toBeGreaterThan(30)
  const wrong = lines.flatMap(({ page, words }) =>
    unknownIn(words).map((mistake) => `${page}: ${words.join(' ')}: ${mistake}`),
  )
  expect(wrong).toEqual([])
})

it.each([
  ['kubectl -n sluices get pods', 'namespace sluices'],
  ['kubectl -n sluice rollout undo deployment/slice', 'Deployment slice'],
  ['kubectl -n sluice exec job/toolbox -c natsbox -- nats stream ls', 'container of toolbox: natsbox'],
  ['kubectl -n sluice delete pvc data-nats-3', 'claim data-nats-3'],
  ['kubectl -n sluice delete pod -l app.kubernetes.io/name=nuts', 'label app.kubernetes.io/name=nuts'],
  ['kubectl -n sluice patch secret passwords', 'secret passwords'],
  ['kubectl apply -k deploy/overlays/staging', 'path deploy/overlays/staging'],
])('finds out %s', (line, mistake) => {
  expect(unknownIn(line.split(' '))).toEqual([mistake])
})
