// Whether a tag may be released: node tools/release-check.js v0.3.0. Everything that names a version must name this one.

import { readFileSync } from 'node:fs'

const ROOT = new URL('../', import.meta.url)
/** Where a version stands, beside package.json. */
const PLACES = {
  'package-lock.json': /^ {2}"version": "(.*)",$/m,
  'openapi.yaml': /^ {2}version: (.*)$/m,
  'openapi-admin.yaml': /^ {2}version: (.*)$/m,
  'openapi-portal.yaml': /^ {2}version: (.*)$/m,
  'deploy/base/kustomization.yaml': /- name: sluice\n {4}newTag: (.*)$/m,
  'CHANGELOG.md': /^## (\d\S*) /m,
  Dockerfile: /^ARG VERSION=(.*)$/m,
  'clients/typescript/package.json': /^ {2}"version": "(.*)",$/m,
  'clients/typescript/src/queue.ts': /^const VERSION = 'sluice-client\/(.*)'$/m,
  'clients/python/sluice_client.py': /^VERSION = "sluice-client-python\/(.*)"$/m,
}
/** The table of supported versions names the minor one. */
const SUPPORTED = 'SECURITY.md'

/**
 * What is wrong with the tag; none: it may be released.
 * @param {string} tag
 * @param {(path: string) => string} [read]
 */
export function releaseMistakes(tag, read = (path) => readFileSync(new URL(path, ROOT), 'utf8')) {
  /** @type {{ version: string }} */
  const { version } = JSON.parse(read('package.json'))
  const mistakes = tag === `v${version}` ? [] : [`the tag is ${tag}, package.json has ${version}`]
  for (const [path, pattern] of Object.entries(PLACES)) {
    const found = pattern.exec(read(path))?.[1] ?? 'none'
    if (found !== version) mistakes.push(`${path} has ${found}, package.json has ${version}`)
  }
  const minor = version.split('.').slice(0, 2).join('.')
  if (!read(SUPPORTED).includes(`| ${minor} | yes |`)) mistakes.push(`${SUPPORTED} does not support ${minor}`)
  return mistakes
}

if (import.meta.filename === process.argv[1]) {
  const mistakes = releaseMistakes(process.argv[2] ?? '')
  for (const mistake of mistakes) console.error(`release: ${mistake}`)
  process.exitCode = mistakes.length > 0 ? 1 : 0
}
