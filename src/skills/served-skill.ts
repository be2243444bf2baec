import type { Resource } from '@modelcontextprotocol/server';
import type { Skill as SkillManifest } from '@modelcontextprotocol/server/ext/skills';
import type { MaybePromise } from '../core/common/promises.js';
import type { McpContext } from '../core/calls/mcp-context.js';
import { logger } from '../core/calls/operator-log.js';
import type { FeatureHandler } from '../core/plugins/feature-kind.js';
import { type ProtocolError, sdk } from '../core/protocol/spec.js';
import { type FolderSkill, originOf, readFile } from './folder-skills.js';
import { excessOf, SkillFileError } from './skill-folder.js';
import { frontmatterOf, pathOf, type SkillFiles } from './skill-kind.js';
import { type ManifestFile, type ManifestOfFiles, manifestOf, pathOfUri } from './skill-manifest.js';
import type { SkillOptions } from './skill-options.js';

/** A skill as the methods of the extension see it: of a folder, or of a method with `@Skill()`. */
export interface ServedSkill {
  /** The URI of its `SKILL.md`. */
  readonly uri: string;
  /** `resources/list` shows this. */
  readonly listed: Resource;
  /** Whether guards decide who sees it. */
  readonly guarded: boolean;
  /** Returns whether lists show it to this caller. */
  visible(context: McpContext): MaybePromise<boolean>;
  /** Returns whether this caller may read it. */
  admits(context: McpContext): MaybePromise<boolean>;
  /** Returns its entry for this caller. @throws an error that becomes a JSON-RPC error */
  manifest(context: McpContext): Promise<SkillManifest>;
  /** Returns its files for this caller. @throws an error that becomes a JSON-RPC error */
  files(context: McpContext): Promise<readonly ManifestFile[]>;
  /** Reads a file. @returns `undefined` if it has none with this URI @throws an error that becomes a JSON-RPC error */
  read(uri: string, context: McpContext): Promise<Uint8Array | undefined>;
}

const MARKDOWN = 'text/markdown';

export function servedFolderSkill(skill: FolderSkill): ServedSkill {
  const { manifest } = skill;
  const { uri, frontmatter, resources } = manifest;
  const { name, description } = frontmatter;
  const size = resources.find((file) => file.uri === uri)!.size;
  return {
    uri,
    listed: { uri, name, description, mimeType: MARKDOWN, size },
    guarded: false,
    visible: () => true,
    admits: () => true,
    manifest: () => Promise.resolve(manifest),
    files: () => Promise.resolve(resources),
    async read(asked) {
      const file = resources.find((each) => each.uri === asked);
      try {
        return file && (await readFile(skill, file));
      } catch (error) {
        if (!(error instanceof SkillFileError)) throw error;
        const remedy = 'Start the app again, or set the option "watch", to serve what is there now.';
        logger.warn(`The file ${asked} of the skill ${originOf(skill)} is not served: ${error.message}. ${remedy}`);
        throw internal(`The file ${asked} has changed since its skill was listed. Get the skill again later.`);
      }
    },
  };
}

/** A run of the method of a skill. */
interface Run {
  readonly files: SkillFiles;
  readonly manifest: ManifestOfFiles;
}

export function servedMethodSkill(entry: FeatureHandler): ServedSkill {
  const { key: uri, origin, guarded } = entry;
  const options = entry.options as SkillOptions;
  const { name, dynamic = false } = options;
  const [path, frontmatter] = [pathOf(options), frontmatterOf(options)];
  const run = async (context: McpContext): Promise<Run> => {
    const files = (await entry.run({ uri }, context)) as SkillFiles;
    const excess = excessOf(Array.from(files.values(), ({ byteLength: size }) => ({ size })));
    const made = excess === undefined ? await manifestOf(path, files) : { problem: excess };
    if ('manifest' in made) return { files, ...made };
    logger.error(`The skill "${uri}" of ${origin} cannot be served: ${made.problem}.`);
    throw internal(`Internal error in the skill "${uri}". See the server log.`);
  };
  return {
    uri,
    listed: { uri, name, ...(frontmatter && { description: frontmatter.description }), mimeType: MARKDOWN },
    guarded,
    visible: (context) => entry.visible(context),
    admits: (context) => entry.admits({ uri }, context),
    async manifest(context) {
      if (!dynamic) return (await run(context)).manifest;
      await entry.refusal({ uri }, context);
      return { uri, frontmatter: { ...frontmatter! }, resources: 'dynamic' };
    },
    files: async (context) => (await run(context)).manifest.resources,
    async read(asked, context) {
      const { files, manifest } = await run(context);
      if (!manifest.resources.some((file) => file.uri === asked)) return undefined;
      return files.get(pathOfUri(asked).slice(path.length + 1));
    },
  };
}

function internal(message: string): ProtocolError {
  return new sdk.ProtocolError(sdk.ProtocolErrorCode.InternalError, message);
}
