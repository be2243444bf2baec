import { Column, Entity, PrimaryGeneratedColumn } from 'typeorm';

@Entity()
export class Contact {
  @PrimaryGeneratedColumn('identity') id!: number;
  @Column('text', { select: false }) tenant!: string;
  @Column('text') name!: string;
  @Column('text') email!: string;
}
