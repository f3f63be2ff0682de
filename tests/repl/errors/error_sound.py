"""Mistakes with recordings, for error_cases.py."""
import math
import struct
import wave

from error_forms import ARRAYS, job, script

NETWORK = "pg.sequential { pg.flatten {}, pg.dense { 2 } }"


def write_recordings(folder):
    """sounds/yes/1.wav and so on, 0.05 seconds of 8 kHz; a table without the column that it needs."""
    for number, name in enumerate(("yes/1", "yes/2", "no/1", "no/2")):
        path = folder / "sounds" / f"{name}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        with wave.open(str(path), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(8000)
            file.writeframes(b"".join(struct.pack("<h", int(9000 * math.sin(i * .3 * (number + 1)))) for i in range(400)))
    (folder / "sounds.csv").write_text("file,label\nyes/1.wav,yes\nno/1.wav,no\n")


# options of the source, cause, fix, place
SOURCES = [
    ('label = "*_{klass}.wav"', "does not say where the class stands", None, "trial.lua:7"),
    ('label = "{class}_*.wav"', "the name does not fit 'label'", ('label = "{class}_*.wav"', "lengths = false"), "sounds/no/1.wav"),
    ('files = "*.flac"', "no recording has a name that 'files' describes", ('files = "*.flac"', "lengths = false"), "sounds"),
    ('table = "sounds.csv"', "the table has no column 'path'", ('table = "sounds.csv"', "lengths = false"), "sounds.csv"),
    ("channels = 2, lengths = false", "the recording has another number of channels", ("channels = 2", "channels = 1"), ".wav"),
    ("seconds = 5000, lengths = false", "an example would have 40000000 steps", ("seconds = 5000", "seconds = 10"), "sounds"),
]
# a transform, cause, fix, place
TRANSFORMS = [
    ("pg.transform.mel { fft = 100 }", "a power of two, at least the window's 200", ("100", "256"), "trial.lua:7"),
    ("pg.transform.mel { high = 5000 }", "above low, at most 4000", ("5000", "4000"), "trial.lua:7"),
    ("pg.transform.mfcc { 30, mels = 20 }", "are more than the mels", ("30", "20"), "trial.lua:7"),
    ("pg.transform.speed { { 1000 } }", "expected 25 to 400", ("1000", "400"), "trial.lua:7"),
    ("pg.transform.noise { 30, most = 20 }", "is less than 'least'", ("30", "10"), "trial.lua:7"),
]
# data that are no recordings, cause, fix, place
OTHERS = [
    ("pg.data.arrays { x = { 1, 2 }, y = { 0, 1 } }:map { pg.transform.spec_augment {} }", "expected f32 of rows x steps, as recordings are", None,
     "trial.lua:7"),
    ("pg.data.arrays { x = { 1, 2 }, y = { 0, 1 } }:map { pg.transform.mel {} }", "expected f32 of channels x steps", None, "trial.lua:7"),
    ("pg.data.arrays { x = { { { 1, 2, 3, 4 } }, { { 1, 2, 3, 4 } } }, y = { 0, 1 } }:map { pg.transform.mel { mels = 2 } }",
     "steps a second; the source 'audio' knows it", ("mels = 2", "mels = 2, rate = 100"), "trial.lua:7"),
    ("pg.data.arrays { x = { { { 1, 2, 3, 4 } }, { { 1, 2, 3, 4 } } }, y = { 0, 1 } }:map { pg.transform.voice {} }",
     "steps a second; the source 'audio' knows it", ("voice {", "voice { rate = 100"), "trial.lua:7"),
]

# a layer in front of `flatten`, cause, fix, place
LAYERS = [
    ("pg.mfcc { 30, mels = 20, rate = 8000 }", "are more than the mels", ("30", "20"), "trial.lua"),
    ("pg.mel { rate = 8000, fft = 100 }", "a power of two, at least the window's 200", ("100", "256"), "trial.lua"),
    ("pg.mel { mels = 8 }", "'rate' is missing; expected steps a second", ("mels = 8", "rate = 8000"), "trial.lua"),
    ("pg.spectrogram { rate = 8000, hop = 1e6 }", "steps, expected 1 to 32768", ("1e6", "5"), "trial.lua"),
    ("pg.flatten {}, pg.spectrogram { rate = 8000 }", "put reshape {channels, steps} in front", ("pg.flatten {}, ", ""), "spectrogram1"),
]

CASES = [job(cause, fix, place=place, network=NETWORK, train=f'pg.data.audio {{ "sounds", {options} }}') for options, cause, fix, place in SOURCES]
CASES += [job(cause, fix, place=place, network=NETWORK, train=f'pg.data.audio {{ "sounds", lengths = false }}:map {{ {transform} }}')
          for transform, cause, fix, place in TRANSFORMS]
CASES += [job(cause, fix, place=place, network=NETWORK, train=train) for train, cause, fix, place in OTHERS]
CASES += [job(cause, fix, place=place, network=f"pg.sequential {{ {layer}, pg.flatten {{}}, pg.dense {{ 2 }} }}",
              train='pg.data.audio { "sounds", lengths = false }') for layer, cause, fix, place in LAYERS]
CASES += [
    script("a recording that is damaged", "sounds/yes/3.flac", "libsndfile cannot read this sound", "delete the file or replace it", network=NETWORK,
           train='pg.data.audio { "sounds", files = "*.flac" }', after=(("-e", 'io.open("sounds/yes/3.flac", "wb"):write("fLaC" .. ("x"):rep(60))'),)),
    script("a recording for a model of arrays", "sounds/no/1.wav", "the model does not read recordings", "f32[2]", train=ARRAYS,
           args=("predict", "model", "sounds/no/1.wav"), after=(("train", "trial.lua", "--out", "model"),)),
    script("a table for a model of recordings", "two.csv", "the model takes recordings; got a table", "arrays (.npz)", network=NETWORK,
           train='pg.data.audio { "sounds", lengths = false }', args=("predict", "model", "two.csv"),
           after=(("train", "trial.lua", "--out", "model"),)),
]
