import type { Type } from '@nestjs/common';
import type * as ClassTransformer from 'class-transformer';
import type { ClassTransformOptions, TransformationType } from 'class-transformer';
import type * as ClassValidator from 'class-validator';
import type { ValidationError, ValidatorOptions } from 'class-validator';
import type { McpArgumentProblem } from '../handlers.errors.js';
import { requireClassPackages } from './class-packages.cjs';
import type { SchemaUse } from './handler-schema.js';

/** Says what a class describes. */
export interface ClassUse {
  readonly use: SchemaUse;
  /** Whether a pipe refuses properties without rules. */
  readonly closed?: boolean | undefined;
  /** The options of class-transformer: those of a `ValidationPipe`, or of `@SerializeOptions()` for results. */
  readonly transform?: ClassTransformOptions | undefined;
  /** Returns whether a `ClassSerializerInterceptor` stands around the handler, which runs `@Transform()`; absent: none does. */
  readonly serialized?: () => boolean;
  /** The options of class-validator: those of a `ValidationPipe`. */
  readonly validation?: ValidatorOptions | undefined;
  /** Makes the error of arguments that do not fit: that of a `ValidationPipe`. */
  readonly exceptionFactory?: ((errors: ValidationError[]) => Error | Promise<Error>) | undefined;
}

/** Holds the optional packages that validate and convert classes. */
export interface ClassPackages {
  readonly validator: typeof ClassValidator;
  readonly transformer: typeof ClassTransformer;
  /** class-transformer stores its decorators here. */
  readonly storage: {
    findTypeMetadata(
      target: Type,
      property: string,
    ): { readonly typeFunction?: () => unknown; readonly options?: ClassTransformer.TypeOptions } | undefined;
    findTransformMetadatas(target: Type, property: string, type: TransformationType): readonly unknown[];
    findExposeMetadata(target: Type, property: string): ExposeMetadata | undefined;
    findExposeMetadataByCustomName(target: Type, name: string): ExposeMetadata | undefined;
  };
  readonly Executor: new (type: TransformationType, options: ClassTransformOptions) => ClassExecutor;
}

/** The class that converts in class-transformer. */
interface ClassExecutor {
  /** Decides which keys of an object class-transformer reads. */
  getKeys(target: Type, object: object, isMap: boolean): string[];
  /** Runs `@Transform()`. */
  applyCustomTransformations(value: unknown): unknown;
  transform(source: undefined, value: unknown, target?: Type): unknown;
}

interface ExposeMetadata {
  readonly propertyName: string;
  readonly options?: ClassTransformer.ExposeOptions;
}

/**
 * Loads the packages.
 *
 * @param load finds the packages
 * @throws Error that says what to install
 */
export function loadClassPackages(load = requireClassPackages): ClassPackages {
  try {
    const { validator, transformer, storage, executor } = load();
    return {
      validator: validator as ClassPackages['validator'],
      transformer: transformer as ClassPackages['transformer'],
      storage: (storage as { defaultMetadataStorage: ClassPackages['storage'] }).defaultMetadataStorage,
      Executor: (executor as { TransformOperationExecutor: ClassPackages['Executor'] }).TransformOperationExecutor,
    };
  } catch (cause) {
    throw new Error(
      'a class as a schema needs two packages that are not installed. Run: npm install class-validator class-transformer.',
      { cause },
    );
  }
}

/**
 * Returns the names that clients send or get, by the properties of a class, as class-transformer converts it:
 * `@Expose()` gives another name, and `@Exclude()`, groups and versions leave a property out.
 */
export function wireNames(
  dto: Type,
  properties: readonly string[],
  { transformer: { TransformationType: kinds }, storage, Executor }: ClassPackages,
  { use, transform = {} }: ClassUse,
): Map<string, string> {
  const kind = use === 'input' ? kinds.PLAIN_TO_CLASS : kinds.CLASS_TO_PLAIN;
  const object = Object.fromEntries(properties.map((name) => [name, undefined]));
  const keys = new Executor(kind, transform).getKeys(dto, object, false);
  const isNamed = !transform.ignoreDecorators;
  const names = new Map<string, string>();
  for (const key of keys) {
    if (use === 'output') {
      const exposed = isNamed ? storage.findExposeMetadata(dto, key) : undefined;
      names.set(key, exposed?.options?.name ?? key);
    } else {
      // The exposed names come last. A value under the name of the property is overwritten by theirs.
      const exposed = isNamed ? storage.findExposeMetadataByCustomName(dto, key) : undefined;
      names.set(exposed?.propertyName ?? key, key);
    }
  }
  // Decorators may name properties that have no rules.
  for (const name of names.keys()) if (!properties.includes(name)) names.delete(name);
  return names;
}

/** Returns whether `@Transform()` makes the value of a property. */
export function hasTransform(
  dto: Type,
  name: string,
  use: SchemaUse,
  { storage, transformer }: Pick<ClassPackages, 'storage' | 'transformer'>,
): boolean {
  const { PLAIN_TO_CLASS, CLASS_TO_PLAIN } = transformer.TransformationType;
  return storage.findTransformMetadatas(dto, name, use === 'input' ? PLAIN_TO_CLASS : CLASS_TO_PLAIN).length > 0;
}

/** Converts an instance to what is sent, or the other way, without `@Transform()`. */
export function withoutTransforms(
  { Executor, transformer: { TransformationType: kinds } }: Pick<ClassPackages, 'Executor' | 'transformer'>,
  options: ClassTransformOptions = {},
): { toPlain(instance: unknown): object; toInstance(plain: unknown, dto: Type): object } {
  const executor = (kind: TransformationType, exposeUnsetFields: boolean): ClassExecutor => {
    const made = new Executor(kind, { exposeUnsetFields, ...options });
    return Object.assign(made, { applyCustomTransformations: (value: unknown) => value });
  };
  return {
    toPlain: (instance) => executor(kinds.CLASS_TO_PLAIN, true).transform(undefined, instance) as object,
    toInstance: (plain, dto) => executor(kinds.PLAIN_TO_CLASS, false).transform(undefined, plain, dto) as object,
  };
}

/** Returns errors under the names that the client knows; none of a property that no client gets, or that `@Transform()` makes. */
export function knownErrors(
  errors: readonly ValidationError[],
  packages: ClassPackages,
  as: ClassUse,
): ValidationError[] {
  const keepsTarget = as.validation?.validationError?.target === true;
  return errors.flatMap((error) => {
    const { target, property, constraints, children = [] } = error;
    const dto = Array.isArray(target) ? undefined : (target?.constructor as Type | undefined);
    const known = dto ? wireNames(dto, [property], packages, as).get(property) : property;
    if (as.use === 'output' && (known === undefined || (dto && hasTransform(dto, property, as.use, packages))))
      return [];
    const name = known ?? property;
    const texts = Object.entries(constraints ?? {}).map(
      ([rule, text]) => [rule, renamed(text, property, name)] as const,
    );
    const renewed = Object.assign(Object.create(Object.getPrototypeOf(error) as object) as ValidationError, error, {
      property: name,
      children: knownErrors(children, packages, as),
      ...(constraints && { constraints: Object.fromEntries(texts) }),
    });
    if (!keepsTarget) delete renewed.target;
    return [renewed];
  });
}

function renamed(text: string, property: string, name: string): string {
  return text
    .split(' ')
    .map((word) => (word === property ? name : word))
    .join(' ');
}

/** Returns the problems that errors name. */
export function problemsOf(
  { property, constraints = {}, children = [] }: ValidationError,
  above = '',
): McpArgumentProblem[] {
  const path = above === '' ? property : `${above}.${property}`;
  const own = Object.values(constraints).map((message) => ({ path, message }));
  return [...own, ...children.flatMap((child) => problemsOf(child, path))];
}
