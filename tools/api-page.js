// Writes the schemas of openapi-admin.yaml and openapi-portal.yaml from those of the code: `npm run docs:api`. A test holds
// the pages to them.

import { readFileSync, writeFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { stringify } from 'yaml'

/** The schemas are a page's last section. */
const SECTION = '  schemas:\n'

/**
 * The page with these schemas. A schema that has a name is referred to by it wherever it stands.
 * @param {string} page @param {Readonly<Record<string, object>>} components
 */
export function withSchemas(page, components) {
  const at = page.indexOf(`\n${SECTION}`)
  if (at === -1) throw new Error('the page has no section of schemas')
  // Of two that are alike but for their description, the first one.
  const named = new Map(
    Object.entries(components)
      .toReversed()
      .map(([name, schema]) => [textOf(schema), { name, schema }]),
  )
  const written = Object.fromEntries(
    Object.entries(components).map(([name, schema]) => [name, shown(schema, named, name)]),
  )
  const text = stringify(written, { lineWidth: 0, aliasDuplicateObjects: false })
  return `${page.slice(0, at + 1)}${SECTION}${text.replace(/^(?=.)/gm, '    ')}`
}

/** Without its description: the same value may mean something else where it stands. */
function textOf(schema) {
  return JSON.stringify({ ...schema, description: undefined })
}

/** As the page has it: no members but those that are named. `own`: the name that is being written. */
function shown(schema, named, own = '') {
  if (Array.isArray(schema)) return schema.map((one) => shown(one, named))
  if (typeof schema !== 'object' || schema === null) return schema
  const known = named.get(textOf(schema))
  if (known !== undefined && known.name !== own) {
    const { description } = schema
    const isSaid = description === undefined || description === known.schema.description
    return { $ref: `#/components/schemas/${known.name}`, ...(isSaid ? {} : { description }) }
  }
  const members = Object.entries(schema).map(([member, value]) => [
    member,
    member === 'properties'
      ? Object.fromEntries(Object.entries(value).map(([name, one]) => [name, shown(one, named)]))
      : shown(value, named),
  ])
  const closed = schema.type === 'object' && 'properties' in schema ? { additionalProperties: false } : {}
  return { ...Object.fromEntries(members), ...closed }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const { COMPONENTS, PORTAL_COMPONENTS } = await import('../dist/contract/admin/components.js')
  const pages = { 'openapi-admin.yaml': COMPONENTS, 'openapi-portal.yaml': PORTAL_COMPONENTS }
  for (const [name, components] of Object.entries(pages)) {
    const page = new URL(`../${name}`, import.meta.url)
    writeFileSync(page, withSchemas(readFileSync(page, 'utf8'), components))
  }
}
