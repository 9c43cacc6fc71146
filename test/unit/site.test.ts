// The pages of the repository as pages of the site: links, the order, and the list for programs.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { DOORS, OPENAPI } from '../../tools/site/doors.js'
import { linked, llmsText, REPOSITORY, summaryOf, titleOf } from '../../tools/site/pages.js'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const PAGES = ['README.md', 'docs/a.md', 'docs/b-c.md', 'clients/python/README.md']

describe('a page of the site', () => {
  it.each([
    ['a page', 'see docs/b-c.md.', 'see [docs/b-c.md](./b-c.md).'],
    ['a section', '(docs/b-c.md, "What it is: this")', '([docs/b-c.md, "What it is: this"](./b-c.md#what-it-is-this))'],
    ['a page elsewhere', 'README.md says', '[README.md](../README.md) says'],
    ['itself', 'this is docs/a.md', 'this is docs/a.md'],
    ['a page that is not there', 'docs/none.md', 'docs/none.md'],
    ['a page in code', '`docs/b-c.md`', '`docs/b-c.md`'],
    ['a page in a block', '```sh\ncat docs/b-c.md\n```', '```sh\ncat docs/b-c.md\n```'],
    ['a link', '[client](../clients/python/README.md#x)', '[client](../clients/python/README.md#x)'],
    ['a link to a file', '[licence](../LICENSE)', `[licence](${REPOSITORY}/blob/main/LICENSE)`],
    ['a link to the web', '[x](https://example.com/docs/b-c.md)', '[x](https://example.com/docs/b-c.md)'],
    ['a badge of another host', 'a\n\n[![ci](https://x.example/b.svg)](https://x.example)\n\nb', 'a\n\nb'],
    ['a picture in HTML', '<img src="console/now.png">', '<img src="./console/now.png">'],
  ])('that names %s', (_, text, expected) => {
    expect(linked(text, 'docs/a.md', PAGES)).toBe(expected)
  })

  it('has a title and a summary, without marks', () => {
    expect(titleOf('# The `x` page\n\ntext', 'x.md')).toBe('The x page')
    expect(summaryOf('# T\n\n| a |\n\n**First** [of](a.md) all. Second.\n')).toBe('First of all.')
  })
})

describe('the order of the site', () => {
  const paths = DOORS.flatMap(({ pages }) => pages)

  it('has each page of docs once, and none that is not there', () => {
    const docs = readdirSync(`${ROOT}docs`).filter((name) => name.endsWith('.md'))
    expect(paths.filter((path) => path.startsWith('docs/')).toSorted()).toEqual(
      docs.map((name) => `docs/${name}`).toSorted(),
    )
    expect(new Set(paths).size).toBe(paths.length)
    expect([...paths, ...OPENAPI.map(({ file }) => file)].filter((path) => !existsSync(ROOT + path))).toEqual([])
  })

  it('is that of the list for programs, with a sentence for each page', () => {
    const lines = llmsText(DOORS, (path) => readFileSync(ROOT + path, 'utf8')).split('\n')
    expect(lines.filter((line) => line.startsWith('## '))).toEqual(DOORS.map(({ name }) => `## ${name}`))
    const pages = lines.filter((line) => line.startsWith('- '))
    expect(pages.map((line) => /\]\(([^)]+)\)/.exec(line)?.[1])).toEqual(paths)
    for (const line of pages) expect(line).toMatch(/\): \S.{15,}/)
  })
})
