// Puts an image by its digest in the place of each tag in deploy/: node tools/pin-images.js sluice=ghcr.io/…@sha256:…
// What is not given is asked of its registry by `docker buildx imagetools`. A release does this to what it publishes; the
// repository has tags, since a digest can be known only after the image is built.

import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'

const ROOT = new URL('../', import.meta.url)
const FILES = ['base', 'overlays/local', 'overlays/production'].map((folder) => `deploy/${folder}/kustomization.yaml`)
const COMPOSE = 'deploy/compose.yaml'
const BY_DIGEST = /^(\S+)@(sha256:[0-9a-f]{64})$/
/** Of an entry of `images`: its name, and then where it is from and its tag, where it names them. */
const ENTRY = /^ {2}- name: (\S+)\n((?: {4}(?:newName|newTag|digest): .*\n)*)/gm

/** Of deploy/compose.yaml. */
const COMPOSED = /^( +image: )(\S+?)(:[^:\s]+)$/gm

/** The same of deploy/compose.yaml, in which an image stands in one line. @param {string} text @param {(name: string, reference: string) => string} find */
export function pinnedCompose(text, find) {
  return text.replaceAll(COMPOSED, (_, start, name, tag) => {
    const reference = find(name, `${name}${tag}`)
    if (!BY_DIGEST.test(reference)) throw new Error(`${name} has no digest`)
    return `${start}${reference}`
  })
}

/**
 * The text with a digest for each image. Throws where one is missing or is none.
 * @param {string} text
 * @param {(name: string, reference: string | null) => string} find `reference`: with its tag; null: it has none here.
 */
export function pinned(text, find) {
  const at = text.indexOf('\nimages:\n')
  if (at === -1) throw new Error('the file names no images')
  const images = text.slice(at).replaceAll(ENTRY, (_, name, members) => {
    const newName = /newName: (.*)/.exec(members)?.[1] ?? name
    const tag = /newTag: (.*)/.exec(members)?.[1]
    const [, image, digest] = BY_DIGEST.exec(find(name, tag === undefined ? null : `${newName}:${tag}`)) ?? []
    if (digest === undefined || /^sha256:(.)\1*$/.test(digest)) throw new Error(`${name} has no digest`)
    return `  - name: ${name}\n    newName: ${image}\n    digest: ${digest}\n`
  })
  return text.slice(0, at) + images
}

/** @param {string} name @param {string | null} reference */
function ofRegistry(name, reference) {
  if (reference === null) throw new Error(`${name} has no tag: give it as ${name}=IMAGE@sha256:…`)
  const args = ['buildx', 'imagetools', 'inspect', reference, '--format', '{{.Manifest.Digest}}']
  return `${reference.replace(/:[^:/]*$/, '')}@${execFileSync('docker', args, { encoding: 'utf8' }).trim()}`
}

if (import.meta.filename === process.argv[1]) {
  const given = new Map(process.argv.slice(2).map((arg) => /** @type {[string, string]} */ (arg.split(/=(.*)/s, 2))))
  /** @param {string} name @param {string | null} reference */
  const find = (name, reference) => given.get(name) ?? ofRegistry(name, reference)
  for (const file of [...FILES, COMPOSE]) {
    const path = new URL(file, ROOT)
    writeFileSync(path, (file === COMPOSE ? pinnedCompose : pinned)(readFileSync(path, 'utf8'), find))
  }
}
