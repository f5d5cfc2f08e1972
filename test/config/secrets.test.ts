// biome-ignore-all lint/suspicious/noTemplateCurlyInString: ${NAME} is what configurations write
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { loadConfig } from '../../src/config/load.js'
import { ConfigError, formatProblem } from '../../src/config/problem.js'
import { maskError, Secrets } from '../../src/config/secrets.js'
import { expandVariables, type Variables } from '../../src/config/variables.js'

function secretsOf(text: string, variables: Variables): Secrets {
  const secrets = new Secrets()
  const expansion = expandVariables(text, variables)
  if (!Array.isArray(expansion)) secrets.add(expansion)
  return secrets
}

/** Problems and warnings of `sluice.yaml` as lines, in which the folder is left out. */
async function told(t: Test, files: Parameters<Test['testdir']>[0], variables: Variables): Promise<string[]> {
  const folder = t.testdir(files)
  const file = join(folder, 'sluice.yaml')
  const line = (problem: Parameters<typeof formatProblem>[1]) =>
    formatProblem('sluice.yaml', problem).replaceAll(`${folder}/`, '')
  try {
    const loaded = await loadConfig(file, undefined, { variables })
    return loaded.warnings.map(line)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map(line)
  }
}

t.test('the value of a variable with the name of a secret is replaced by the variable', async t => {
  const { mask } = secretsOf('${DIR}/${DB_PASSWORD}.yaml', {
    DIR: '/run/rules',
    DB_PASSWORD: 'hunter2secret',
  })
  t.equal(
    mask('/run/rules/hunter2secret.yaml twice: hunter2secret'),
    '/run/rules/${DB_PASSWORD}.yaml twice: ${DB_PASSWORD}',
  )
  t.equal(mask('a name is in lower case: HUNTER2SECRET'), 'a name is in lower case: ${DB_PASSWORD}')
  t.equal(mask('nothing of it'), 'nothing of it')
})

t.test('all variables of a value with an @ are replaced', async t => {
  const { mask } = secretsOf('redis://me:${PW}@${HOST}', { PW: 'hunter2', HOST: 'db.example' })
  t.equal(mask('hunter2 at db.example'), '${PW} at ${HOST}')
})

t.test('a value is found in the forms in which messages have it', async t => {
  const { mask } = secretsOf('${TOKEN}${API_KEY}${PASS_DIR}', {
    TOKEN: 'a"b\\c.d',
    API_KEY: 'ab//cd',
    PASS_DIR: './kept/here/',
  })
  t.equal(mask(`${JSON.stringify('a"b\\c.d')} a"b\\c.d`), '"${TOKEN}" ${TOKEN}')
  t.equal(mask('/x/ab/cd ab//cd'), '/x/${API_KEY} ${API_KEY}')
  t.equal(mask('/x/kept/here is not a directory'), '/x/${PASS_DIR} is not a directory')
})

t.test('the longest value counts, and one of less than four characters is a word like others', async t => {
  const { mask } = secretsOf('${KEY}${KEY_2}${KEY_3}', { KEY: 'abcd', KEY_2: 'abcdef', KEY_3: 'abc' })
  t.equal(mask('abcdefg abcde abc'), '${KEY_2}g ${KEY}e abc')
  t.equal(new Secrets().mask('abcd'), 'abcd')
})

t.test('an error for the log has no secret in its message and its stack, and none beside them', async t => {
  const { mask } = secretsOf('${DB_PASSWORD}', { DB_PASSWORD: 'hunter2secret' })
  const error = Object.assign(new Error('bind /x/hunter2secret'), {
    code: 'EACCES',
    address: '/x/hunter2secret',
  })
  const masked = maskError(error, mask)
  t.equal(masked.message, 'bind /x/${DB_PASSWORD}')
  t.notMatch(masked.stack, /hunter2/)
  t.match(masked.stack, /secrets\.test/)
  t.match(masked, { code: 'EACCES' })
  t.notOk('address' in masked)
  t.equal(maskError('hunter2secret', mask).message, '${DB_PASSWORD}')
})

t.test('no problem and no warning has a secret in it that another key or another file names', async t => {
  const variables = { DB_PASSWORD: 'hunter2secret' }
  const rules = 'rules: { a: { hosts: [a.example] } }'
  const rows: [Parameters<Test['testdir']>[0], string[]][] = [
    [
      {
        'sluice.yaml': 'version: 1\ninclude: ["${DB_PASSWORD}.yaml"]\n',
        'hunter2secret.yaml': 'rules: { a: { hosts: [a.example], host: [] } }',
      },
      ['${DB_PASSWORD}.yaml:1:35: rules.a.host: '],
    ],
    [
      {
        'sluice.yaml': 'version: 1\ninclude: [x.yaml]\n',
        'x.yaml': 'include: ["${DB_PASSWORD}.yaml"]',
        'hunter2secret.yaml': 'rules: 3',
      },
      ['${DB_PASSWORD}.yaml:1:8: rules: '],
    ],
    [
      {
        'sluice.yaml': 'version: 1\ninclude: ["${DB_PASSWORD}.yaml", x.yaml]\n',
        'x.yaml': rules,
        'hunter2secret.yaml': rules,
      },
      ['x.yaml:1:10: rules.a: the rule `a` is at ${DB_PASSWORD}.yaml:1:10 already'],
    ],
    [
      {
        'sluice.yaml':
          'version: 1\norigins: [{ path: /, store: { directory: "/nowhere/${DB_PASSWORD}" } }]\ncache: { store: disk, directory: /nowhere }\n',
      },
      [
        'sluice.yaml:3:34: cache.directory: "/nowhere" and "/nowhere/${DB_PASSWORD}", the directory of origins[0]',
      ],
    ],
    [
      {
        'sluice.yaml': 'version: 1\ninclude: ["${DB_PASSWORD}.yaml"]\n',
        'hunter2secret.yaml': 'include: [self.yaml]',
        'self.yaml': 'include: ["${DB_PASSWORD}.yaml"]',
      },
      ['self.yaml:1:11: include[0]: files include each other in a circle: '],
    ],
  ]
  for (const [files, expected] of rows) {
    const lines = await told(t, files, variables)
    t.equal(lines.length, expected.length, lines.join('\n'))
    for (const [index, beginning] of expected.entries())
      t.equal(lines[index]?.slice(0, beginning.length), beginning)
    t.notMatch(lines.join('\n'), /hunter2/)
  }
})

t.test('an included file that is no map is told without what it holds', async t => {
  const lines = await told(
    t,
    { 'sluice.yaml': 'version: 1\ninclude: [password]\n', password: 'hunter2secret\n' },
    {},
  )
  t.same(lines, [
    'password:1:1: expected a map of version, include, clients, rules, deny, found a single value',
  ])
})
